// Verifies access tokens: signature and claims once a minute at most, and at each use that nobody has revoked them.
import { hash } from "node:crypto";
import { type JWTPayload, type JWTVerifyOptions, jwtVerify } from "jose";
import { tokenAudience } from "../../contract/oauth.ts";
import { BoundedMap } from "../../core/bounded-map.ts";
import type { RecordStore } from "./record-store.ts";
import { type SigningKeys, signingAlgorithm } from "./signing-keys.ts";

export type AccessToken = {
  /** The user's or service account's id. */
  subjectId: string;
  kind: "user" | "service_account";
  clientId: string;
  /** What was granted; the role in a workspace may allow less. */
  scopes: readonly string[];
  tokenId: string;
  audience: string;
  issuedAt: number;
  /** Milliseconds, as all times here. */
  expiresAt: number;
};

type Verified = { token: AccessToken; grantId: string; until: number };

const verifiedMax = 10_000;
/** A verified token is believed this long, so that a removed signing key is noticed. */
const verifiedMs = 60_000;
const tokenMaxLength = 8_192;
const clientKinds: readonly unknown[] = ["user", "service_account"];

export class AccessTokens {
  readonly #keys: SigningKeys;
  readonly #records: RecordStore;
  readonly #options: JWTVerifyOptions;
  readonly #verified = new BoundedMap<string, Verified>(verifiedMax);

  constructor({ keys, records, issuer }: { keys: SigningKeys; records: RecordStore; issuer: string }) {
    this.#keys = keys;
    this.#records = records;
    this.#options = {
      algorithms: [signingAlgorithm],
      typ: "at+jwt",
      issuer,
      audience: tokenAudience,
      requiredClaims: ["sub", "iat", "exp", "jti", "client_id"],
    };
  }

  /** Undefined when it is no access token of ours, has expired or was revoked. */
  async verify(text: string): Promise<AccessToken | undefined> {
    if (text.length > tokenMaxLength) return undefined;
    const now = Date.now();
    const key = hash("sha256", text, "base64url");
    let verified = this.#verified.get(key);
    if (verified === undefined || verified.until <= now) {
      verified = await this.#check(text, now);
      if (verified === undefined) return undefined;
      this.#verified.set(key, verified);
    }
    const { token, grantId } = verified;
    return (await this.#records.isLive(grantId, token.tokenId)) ? token : undefined;
  }

  /** After a change of the signing keys: what a removed one has signed is no longer believed. */
  forgetVerified(): void {
    this.#verified.clear();
  }

  async #check(text: string, now: number): Promise<Verified | undefined> {
    try {
      const { payload } = await jwtVerify(
        text,
        async ({ kid }) => {
          const key = kid === undefined ? undefined : await this.#keys.findPublicKey(kid);
          if (key === undefined) throw new Error("no such key");
          return key;
        },
        this.#options,
      );
      return readClaims(payload, now);
    } catch {
      return undefined;
    }
  }
}

/** Whether a credential is meant to be an access token rather than an API key. */
export function looksLikeAccessToken(credential: string): boolean {
  return credential.startsWith("ey") && credential.split(".", 4).length === 3;
}

function readClaims({ sub, aud, iat, exp, jti, ...claims }: JWTPayload, now: number): Verified | undefined {
  const { client_id: clientId, scope, grant, kind } = claims;
  if (typeof clientId !== "string" || typeof grant !== "string" || !clientKinds.includes(kind)) return undefined;
  const expiresAt = exp! * 1_000;
  if (expiresAt <= now) return undefined;
  const token: AccessToken = {
    subjectId: sub!,
    kind: kind as AccessToken["kind"],
    clientId,
    scopes: typeof scope === "string" && scope !== "" ? scope.split(" ") : [],
    tokenId: jti!,
    audience: String(aud),
    issuedAt: iat! * 1_000,
    expiresAt,
  };
  return { token, grantId: grant, until: Math.min(expiresAt, now + verifiedMs) };
}
