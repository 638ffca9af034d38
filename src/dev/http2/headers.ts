// Headers of HTTP/2 as HTTP/1 writes them, and back; what could be read in two ways has no translation.
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";

const connectionHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
  "te",
  "http2-settings",
]);

export type RequestHead = {
  method: string;
  path: string;
  /** Undefined when the request names none. */
  authority: string | undefined;
  /** Of an extended CONNECT (RFC 8441). */
  protocol: string | undefined;
};

/** Undefined when it is malformed, or HTTP/1 could not say the same (RFC 9113, 8.3.1). */
export function readHead(headers: IncomingHttpHeaders): RequestHead | undefined {
  const { ":method": method, ":path": path, ":scheme": scheme, ":authority": named, host } = headers;
  const protocol = headers[":protocol"] as string | undefined;
  if (method === undefined || path === undefined) return undefined;
  if (scheme !== "http" && scheme !== "https") return undefined;
  // In absolute form the path would name another host than the authority does.
  if (!path.startsWith("/") && !(path === "*" && method === "OPTIONS")) return undefined;
  if ((method === "CONNECT") !== (protocol !== undefined)) return undefined;
  if (named !== undefined && host !== undefined && named.toLowerCase() !== host.toLowerCase()) return undefined;
  return { method, path, authority: named ?? host, protocol };
}

/** As one list of names and values, in which only cookies are put together (RFC 9113, 8.2.3); without what `isDropped`. */
export function requestHeaders(
  { authority }: RequestHead,
  raw: readonly string[],
  isDropped: (name: string) => boolean = () => false,
): string[] {
  const list = authority === undefined ? [] : ["host", authority];
  const cookies: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (name.startsWith(":") || name === "host" || connectionHeaders.has(name) || isDropped(name)) continue;
    if (name === "cookie") cookies.push(raw[index + 1]!);
    else list.push(name, raw[index + 1]!);
  }
  if (cookies.length > 0) list.push("cookie", cookies.join("; "));
  return list;
}

export function responseHeaders(raw: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (connectionHeaders.has(name)) continue;
    const before = headers[name];
    headers[name] = before === undefined ? raw[index + 1]! : [before, raw[index + 1]!].flat();
  }
  for (const [name, value] of Object.entries(headers)) {
    // The transport takes only some of them more than once.
    if (Array.isArray(value) && name !== "set-cookie") headers[name] = value.join(", ");
  }
  return headers;
}

export function trailersOf(headers: IncomingHttpHeaders): [name: string, value: string][] {
  return Object.entries(headers as OutgoingHttpHeaders)
    .filter(([name]) => !name.startsWith(":"))
    .map(([name, value]) => [name, String(value)]);
}
