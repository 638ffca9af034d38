// How often a credential may ask, and how often an address may be wrong.
import { AppError } from "../../core/errors.ts";
import { type BucketLimits, TokenBuckets } from "../../core/token-buckets.ts";

export type RequestLimitsConfig = { requests: BucketLimits; rejections: BucketLimits };

export class RequestLimits {
  readonly #requests: TokenBuckets;
  readonly #rejections: TokenBuckets;

  constructor({ requests, rejections }: RequestLimitsConfig) {
    this.#requests = new TokenBuckets(requests);
    this.#rejections = new TokenBuckets(rejections);
  }

  /** Throws `rate_limited` when the credential has asked too often. */
  countRequest(credentialId: string): void {
    refuseFor(this.#requests.take(credentialId), "This credential makes too many requests; see Retry-After.");
  }

  /**
   * Throws `rate_limited` when too many credentials from the address were wrong. Right ones are not held up by it: keys cannot be
   * guessed, and an address may be shared.
   */
  countRejection(address: string): void {
    refuseFor(this.#rejections.take(networkOf(address)), "Too many wrong credentials came from here; see Retry-After.");
  }
}

function refuseFor(waitMs: number, message: string): void {
  if (waitMs > 0) throw new AppError("rate_limited", message, { details: { retryAfterMs: waitMs } });
}

/** Whoever has one IPv6 address has 2^64 of them. */
function networkOf(address: string): string {
  if (!address.includes(":") || address.startsWith("::ffff:")) return address;
  const [head = "", tail = ""] = address.split("::");
  const groups = head.split(":").filter(Boolean);
  if (!address.includes("::")) return groups.slice(0, 4).join(":");
  const behind = tail.split(":").filter(Boolean);
  const filled = [...groups, ...Array<string>(Math.max(0, 8 - groups.length - behind.length)).fill("0"), ...behind];
  return filled.slice(0, 4).join(":");
}
