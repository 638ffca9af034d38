// Finds the token of a preview's request, in its header, its query or a cookie, and takes every trace of tokens out.
import type { IncomingMessage } from "node:http";
import { removeHeaders, setHeader } from "../request-headers.ts";

const parameter = "bl_preview_token";
const tokenMaxLength = 256;
/** Other programs of the same domain can add cookies of this name: one of them must not lock the right one out. */
const cookiesMax = 4;

export type GivenToken = {
  /** What was given explicitly stands alone: a cookie does not mend it. */
  candidates: readonly string[];
  from: "header" | "query" | "cookie" | undefined;
};

/** `url` begins with a slash. Returns it without the token. */
export function takeToken(
  request: IncomingMessage,
  url: string,
  cookieName: string,
): { given: GivenToken; rest: string } {
  const header = request.headers["x-blaxel-preview-token"];
  const { token: query, rest } = takeFromQuery(url);
  const cookies = takeCookies(request, cookieName);
  cleanReferer(request);
  return { given: choose(header, query, cookies), rest };
}

/** A browser cannot send two; of those who do, one is kept. */
function cleanReferer(request: IncomingMessage): void {
  const { rawHeaders } = request;
  const given = rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]!.toLowerCase() === "referer");
  const [first = "", ...more] = given.map((url) => takeFromQuery(url.split("#", 1)[0]!).rest);
  if (more.length > 0 || (given[0] !== undefined && given[0] !== first)) setHeader(request, "referer", first);
}

function choose(header: string | string[] | undefined, query: string | undefined, cookies: string[]): GivenToken {
  if (header !== undefined) return { candidates: bound([header].flat()), from: "header" };
  if (query !== undefined) return { candidates: bound([query]), from: "query" };
  return { candidates: bound(cookies), from: cookies.length === 0 ? undefined : "cookie" };
}

/** A header that came twice is one text with a comma, and so no token. */
function bound(candidates: readonly string[]): string[] {
  return candidates.filter((each) => each.length <= tokenMaxLength).slice(0, cookiesMax);
}

/** Its name may be written with escapes: whoever comes next would read it all the same. The first of several counts. */
function takeFromQuery(url: string): { token: string | undefined; rest: string } {
  const start = url.indexOf("?");
  if (start === -1) return { token: undefined, rest: url };
  let token: string | undefined;
  const kept = url
    .slice(start + 1)
    .split("&")
    .filter((pair) => {
      const [name, ...value] = pair.split("=");
      if (decode(name!) !== parameter) return true;
      token ??= decode(value.join("="));
      return false;
    });
  if (token === undefined) return { token, rest: url };
  return { token, rest: url.slice(0, start) + (kept.length === 0 ? "" : `?${kept.join("&")}`) };
}

function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function takeCookies(request: IncomingMessage, cookieName: string): string[] {
  const { cookie } = request.headers;
  if (cookie === undefined || !cookie.includes(cookieName)) return [];
  const taken: string[] = [];
  const kept = cookie.split(";").filter((pair) => {
    const [name, ...value] = pair.split("=");
    if (name!.trim() !== cookieName) return true;
    taken.push(value.join("=").trim());
    return false;
  });
  if (taken.length > 0) {
    removeHeaders(request, (name) => name === "cookie");
    const rest = kept.join(";").trim();
    if (rest !== "") setHeader(request, "cookie", rest);
  }
  return taken;
}
