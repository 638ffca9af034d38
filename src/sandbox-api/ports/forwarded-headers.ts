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
 * refused, and one whose body is coded for this connection: the server inside would not be told how.
 */
export function requestHeaders(request: IncomingMessage, port: number): RawHeaders {
  const { headers } = request;
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && headers["content-length"] !== undefined) {
    throw new AppError("invalid_request", "The request has both Content-Length and Transfer-Encoding.");
  }
  if (coding !== undefined && !isChunked(coding)) {
    throw new AppError("unsupported", "The only transfer coding that is understood is chunked.");
  }
  const kept = filterHeaders(request.rawHeaders, withheldFromRequests);
  return kept.concat(forwarded(request, port));
}

/** Trailers come behind what they would change: fields that say who asks, for whom and how much have no place there (RFC 9110, 6.5.1). */
export function requestTrailers(raw: RawHeaders): [name: string, value: string][] {
  return pairUp(filterHeaders(raw, new Set([...withheldFromRequests, ...protectedNames])));
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

/** The same for the head of an answer by HTTP/1, whose framing is its connection's. */
export function answerHeaders(status: number, raw: RawHeaders): RawHeaders {
  if (status < 200 || status > 599) throw new AppError("upstream_failed", "its status is none of HTTP");
  const isCoded = raw.some((part, at) => {
    return at % 2 === 1 && raw[at - 1]!.toLowerCase() === "transfer-encoding" && !isChunked(part);
  });
  if (isCoded) throw new AppError("upstream_failed", "its answer has another transfer coding than chunked");
  const kept = responseHeaders(raw);
  // Behind this status nothing comes, whatever length it names (RFC 9110, 8.6).
  if (status !== 204) return kept;
  return pairUp(kept)
    .filter(([name]) => name.toLowerCase() !== "content-length")
    .flat();
}

export function responseTrailers(raw: RawHeaders): [name: string, value: string][] {
  return pairUp(responseHeaders(raw)).filter(([name]) => !protectedNames.has(name.toLowerCase()));
}

function isChunked(coding: string): boolean {
  return /^\s*chunked\s*$/i.test(coding);
}

function pairUp(raw: RawHeaders): [name: string, value: string][] {
  return Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at]!, raw[2 * at + 1]!]);
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
