// Remembers in a cookie that somebody has signed in with a browser: what others guess about the account does not lock that browser out.
import type { FastifyReply, FastifyRequest } from "fastify";
import { oauthPaths } from "../../contract/oauth.ts";
import { randomToken } from "../../core/ids.ts";
import type { SealKey } from "../../core/seal.ts";

const cookieName = "catnap_browser";
const maxAgeSeconds = 365 * 86_400;
const nonceLength = 25;

export type KnownBrowsers = ReturnType<typeof createKnownBrowsers>;

export function createKnownBrowsers({ sealKey, origin }: { sealKey: SealKey; origin: string }) {
  const textOf = (nonce: string, email: string): string => `oauth browser ${nonce} ${email}`;
  const secure = origin.startsWith("https:") ? "; Secure" : "";
  return {
    /** Tells the browser apart from others, when the person with the address has signed in with it before. */
    find({ headers }: FastifyRequest, email: string): string | undefined {
      const cookie = /(?:^|;\s*)catnap_browser=([a-z0-9]{25})\.([\w-]{43})(?:;|$)/.exec(headers.cookie ?? "");
      const [, nonce = "", mark = ""] = cookie ?? [];
      return cookie !== null && sealKey.matchesFingerprint(mark, textOf(nonce, email)) ? nonce : undefined;
    },

    /** The name of the account is not in the cookie. */
    remember({ raw }: FastifyReply, email: string): void {
      const nonce = randomToken(nonceLength);
      const value = `${nonce}.${sealKey.fingerprint(textOf(nonce, email))}`;
      const path = `/v0${oauthPaths.interaction}`;
      const attributes = `Path=${path}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${secure}`;
      raw.appendHeader("set-cookie", `${cookieName}=${value}; ${attributes}`);
    },
  };
}
