// Finds the credential of a request and takes it out, so that nothing behind the edge ever sees it.
import type { IncomingMessage } from "node:http";
import { GatewayError } from "./gateway-error.ts";

const platformHeaders = ["x-blaxel-authorization", "x-blaxel-workspace", "x-blaxel-preview-token"];

/**
 * The bearer credential of `x-blaxel-authorization`, else of `authorization`. With the former, `authorization` belongs to the server
 * inside and is kept unless it carries the same credential. Throws AUTHENTICATION_REQUIRED when there is none.
 */
export function takeCredential(request: IncomingMessage): string {
  const own = bearer(request.headers["x-blaxel-authorization"]);
  const general = bearer(request.headers.authorization);
  const credential = own ?? general;
  const removed = new Set(platformHeaders);
  if (own === undefined || own === general) removed.add("authorization");
  removeHeaders(request, removed);
  if (credential === undefined) throw new GatewayError("AUTHENTICATION_REQUIRED", "The request carries no credential.");
  return credential;
}

function bearer(value: string | string[] | undefined): string | undefined {
  if (typeof value !== "string") return undefined;
  return /^Bearer +([\x21-\x7e]{1,4096}) *$/i.exec(value)?.[1];
}

function removeHeaders(request: IncomingMessage, names: ReadonlySet<string>): void {
  for (const name of names) delete request.headers[name];
  const { rawHeaders } = request;
  let kept = 0;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    if (names.has(rawHeaders[index]!.toLowerCase())) continue;
    rawHeaders[kept++] = rawHeaders[index]!;
    rawHeaders[kept++] = rawHeaders[index + 1]!;
  }
  rawHeaders.length = kept;
}
