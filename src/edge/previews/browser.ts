// What browsers need beside a token in a header: a cookie instead of a token in the address, and protection of that cookie from other sites.
import type { IncomingMessage, ServerResponse } from "node:http";
import { timingOf } from "../../core/timing.ts";

export type CookieSettings = {
  /** The address is `https`. */
  isSecure: boolean;
  /** The path below which the preview lives: empty in host form. */
  mountPath: string;
};

/** With its prefix no other host of the domain can set it. */
export function cookieNameOf({ isSecure, mountPath }: CookieSettings): string {
  return isSecure && mountPath === "" ? "__Host-catnap-preview" : "catnap-preview";
}

/** Whether a browser asks, by what it says of itself in every request or when it opens a page. */
export function isBrowser(request: IncomingMessage): boolean {
  return request.headers["sec-fetch-mode"] !== undefined || isNavigation(request);
}

/** Whether a person's browser opens a page: programs that send a token in the query want the answer itself. */
export function isNavigation({ method, headers }: IncomingMessage): boolean {
  if (method !== "GET" && method !== "HEAD") return false;
  const mode = headers["sec-fetch-mode"];
  return mode === undefined ? (headers.accept ?? "").includes("text/html") : mode === "navigate";
}

/**
 * A browser sends the cookie along, whichever page makes it ask: requests that another origin caused may open a page but do nothing else,
 * and other previews are no exception.
 */
export function mayUseCookie(request: IncomingMessage): boolean {
  const { headers } = request;
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin" || site === "none" || isNavigation(request);
  const { origin } = headers;
  return origin === undefined || isOwnOrigin(origin, headers.host);
}

function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase();
}

/** The cookie that stands for the token, for the preview's own address. */
export function formatCookie(request: IncomingMessage, token: string, settings: CookieSettings): string {
  const { isSecure, mountPath } = settings;
  const isEmbedded = /^i?frame$/.test(String(request.headers["sec-fetch-dest"]));
  // A page inside another site's page: the cookie is kept for that site alone.
  const sameSite = isEmbedded && isSecure ? "SameSite=None; Partitioned" : "SameSite=Lax";
  const secure = isSecure ? "; Secure" : "";
  return `${cookieNameOf(settings)}=${token}; Path=${mountPath || "/"}; HttpOnly; ${sameSite}${secure}`;
}

/** Sends a browser to a path of the preview. */
export function redirect(request: IncomingMessage, response: ServerResponse, mountPath: string, rest: string): void {
  response.writeHead(303, {
    // A path that begins with two slashes would be another host.
    location: mountPath + (/^[/\\]{2}/.test(rest) ? `/.${rest}` : rest),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-length": "0",
    "server-timing": timingOf(request).header(),
  });
  response.end();
}
