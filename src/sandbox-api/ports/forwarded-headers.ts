// Which headers pass between a caller and a server inside the sandbox; each connection keeps its own hop-by-hop headers.
import type { IncomingMessage } from "node:http";
import { exposureOf } from "../../contract/exposure.ts";
import { AppError } from "../../core/errors.ts";

/** Headers as pairs in one list: names, each followed by its value, duplicates kept. */
export type RawHeaders = string[];

const hopByHop = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
]);

/** Credentials for the platform and what it adds itself: no program inside the sandbox may see the first or be told the second. */
const withheldFromRequests = new Set([
  "x-blaxel-authorization",
  "x-blaxel-workspace",
  "x-blaxel-preview-token",
  "expect",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-prefix",
  "x-forwarded-proto",
]);

const withheldFromResponses = new Set(["server-timing"]);

const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * The caller's headers for the server inside, the Host kept as the caller sent it. A request whose length could be read in two ways is
 * refused.
 */
export function requestHeaders(request: IncomingMessage, port: number): RawHeaders {
  const { headers } = request;
  if (headers["transfer-encoding"] !== undefined && headers["content-length"] !== undefined) {
    throw new AppError("invalid_request", "The request has both Content-Length and Transfer-Encoding.");
  }
  const kept = filterHeaders(request.rawHeaders, withheldFromRequests);
  return kept.concat(forwarded(request, port));
}

const responseHeadersMax = 200;

/** A response's headers for the caller; what no HTTP client may be sent is `upstream_failed`. */
export function responseHeaders(raw: RawHeaders): RawHeaders {
  if (raw.length > responseHeadersMax * 2) {
    throw new AppError("upstream_failed", "The server inside the sandbox sent too many headers.");
  }
  for (let index = 0; index < raw.length; index += 2) {
    if (fieldName.test(raw[index]!) && fieldValue.test(raw[index + 1]!)) continue;
    throw new AppError("upstream_failed", "The server inside the sandbox sent a malformed header.");
  }
  return filterHeaders(raw, withheldFromResponses);
}

function filterHeaders(raw: RawHeaders, withheld: ReadonlySet<string>): RawHeaders {
  const named = new Set<string>();
  for (let index = 0; index < raw.length; index += 2) {
    if (raw[index]!.toLowerCase() !== "connection") continue;
    for (const option of raw[index + 1]!.split(",")) named.add(option.trim().toLowerCase());
  }
  const kept: RawHeaders = [];
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    // A Connection header may name any field but not take these from the message.
    const isDropped = hopByHop.has(name) || withheld.has(name) || (named.has(name) && !protectedNames.has(name));
    if (!isDropped && !name.startsWith(":")) kept.push(raw[index]!, raw[index + 1]!);
  }
  return kept;
}

const protectedNames = new Set(["host", "content-length", "content-type", "authorization", "cookie"]);

/** Says how the caller reached the sandbox. The edge has told what came before it; the list of addresses grows by one. */
function forwarded(request: IncomingMessage, port: number): RawHeaders {
  const { headers, socket } = request;
  const list = (name: string): string => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(", ") : (value ?? "");
  };
  const before = list("x-forwarded-for");
  const address = socket.remoteAddress ?? "unknown";
  const isEncrypted = "encrypted" in socket && socket.encrypted === true;
  const prefix = exposureOf(request)?.mountPath ?? `${list("x-forwarded-prefix")}/port/${port}`;
  return [
    ["x-forwarded-for", before === "" ? address : `${before}, ${address}`],
    ["x-forwarded-host", list("x-forwarded-host") || (headers.host ?? "")],
    ["x-forwarded-proto", list("x-forwarded-proto") || (isEncrypted ? "https" : "http")],
    ...(prefix === "" ? [] : [["x-forwarded-prefix", prefix]]),
  ].flat();
}
