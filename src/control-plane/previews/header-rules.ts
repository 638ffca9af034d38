// Which headers a preview may add: none that carries a credential, frames a message or belongs to one connection.
import { AppError } from "../../core/errors.ts";

type Headers = Readonly<Record<string, string>>;

/** Of names and values of one map together: clients and servers read heads of 16 KiB. */
const headersMaxBytes = 6_144;

const ofEither = [
  "connection",
  "content-encoding",
  "content-length",
  "content-range",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "server-timing",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "via",
];
/** Values are kept and shown in clear: credentials do not belong here. */
const ofRequests = new Set([...ofEither, "authorization", "cookie", "expect", "forwarded", "host", "origin", "range"]);
const ofResponses = new Set([...ofEither, "alt-svc", "clear-site-data", "date", "set-cookie", "www-authenticate"]);
const prefixesOfRequests = ["x-blaxel-", "x-forwarded-", "sec-"];
const prefixesOfResponses = ["x-blaxel-", "sec-websocket-"];

export function requireHeaders(field: "requestHeaders" | "responseHeaders", headers: Headers | undefined): void {
  const isRequest = field === "requestHeaders";
  const [names, prefixes] = isRequest ? [ofRequests, prefixesOfRequests] : [ofResponses, prefixesOfResponses];
  const seen = new Set<string>();
  let bytes = 0;
  for (const [given, value] of Object.entries(headers ?? {})) {
    const name = given.toLowerCase();
    if (names.has(name) || prefixes.some((prefix) => name.startsWith(prefix))) {
      reject(`spec.${field}.${given}`, "cannot be set: it belongs to the platform, a connection or a credential");
    }
    if (seen.has(name)) reject(`spec.${field}.${given}`, "appears twice: the case of letters makes no difference");
    if (value !== value.trim()) reject(`spec.${field}.${given}`, "must not begin or end with a space");
    seen.add(name);
    bytes += given.length + value.length;
  }
  if (bytes > headersMaxBytes) reject(`spec.${field}`, `must have at most ${headersMaxBytes} bytes`);
}

function reject(field: string, rule: string): never {
  throw new AppError("invalid_request", `${field} ${rule}`);
}
