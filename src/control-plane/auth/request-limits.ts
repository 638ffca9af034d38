// How often a credential may ask, and how often an address may be wrong.
import { AppError } from "../../core/errors.ts";
import { type BucketLimits, TokenBuckets } from "../../core/token-buckets.ts";
import { networkOf } from "./client-network.ts";

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
