// Finds the credential of a request and takes it out, so that nothing behind the edge ever sees it, or any other of the platform's.
import type { IncomingMessage } from "node:http";
import type { Directory } from "../contract/host.ts";
import { GatewayError } from "./gateway-error.ts";
import { removeHeaders } from "./request-headers.ts";

type Recognition = Pick<Directory, "isPlatformCredential">;

const platformHeaders = new Set(["x-blaxel-authorization", "x-blaxel-workspace", "x-blaxel-preview-token"]);

/**
 * The bearer credential of `x-blaxel-authorization`, else of `authorization`. With the former, `authorization` belongs to the server
 * inside and is kept unless it carries a credential of the platform. Throws AUTHENTICATION_REQUIRED when there is none.
 */
export function takeCredential(request: IncomingMessage, directory: Recognition): string {
  const own = bearer(request.headers["x-blaxel-authorization"]);
  const credential = own ?? bearer(request.headers.authorization);
  const isOurs = own === undefined || carriesPlatformCredential(request, directory);
  removeHeaders(request, (name) => platformHeaders.has(name) || (name === "authorization" && isOurs));
  if (credential === undefined) throw new GatewayError("AUTHENTICATION_REQUIRED", "The request carries no credential.");
  return credential;
}

/** Whether a header meant for the server inside carries a credential of this platform: in any scheme, in clear or in base64. */
export function carriesPlatformCredential(request: IncomingMessage, { isPlatformCredential }: Recognition): boolean {
  const { rawHeaders } = request;
  // One that came twice is in the parsed headers once.
  return rawHeaders.some((value, index) => {
    if (index % 2 === 0 || rawHeaders[index - 1]!.toLowerCase() !== "authorization") return false;
    const encoded = value.match(/[\w+/-]+/g) ?? [];
    const decoded = encoded.map((text) => Buffer.from(text, "base64").toString("latin1"));
    return [value, ...decoded].some((text) => text.match(/[\w.-]+/g)?.some(isPlatformCredential) ?? false);
  });
}

function bearer(value: string | string[] | undefined): string | undefined {
  if (typeof value !== "string") return undefined;
  return /^Bearer +([\x21-\x7e]{1,4096}) *$/i.exec(value)?.[1];
}
