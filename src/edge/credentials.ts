// Finds the credential of a request and takes it out, so that nothing behind the edge ever sees it.
import type { IncomingMessage } from "node:http";
import { GatewayError } from "./gateway-error.ts";
import { removeHeaders } from "./request-headers.ts";

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
  removeHeaders(request, (name) => removed.has(name));
  if (credential === undefined) throw new GatewayError("AUTHENTICATION_REQUIRED", "The request carries no credential.");
  return credential;
}

export function bearer(value: string | string[] | undefined): string | undefined {
  if (typeof value !== "string") return undefined;
  return /^Bearer +([\x21-\x7e]{1,4096}) *$/i.exec(value)?.[1];
}
