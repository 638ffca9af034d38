// The control plane's way to the outside: whoever needs one opens a session here, and none is made in another way.

import { type FindAddresses, OutgoingPolicy } from "./policy.ts";
import { defaultLimits, type OutgoingLimits, OutgoingSession } from "./session.ts";

export type OutgoingOptions = {
  /** See OutgoingPolicyOptions. */
  allowedHosts: readonly string[];
  limits?: Partial<OutgoingLimits>;
  /** For tests: instead of the machine's resolver, and authorities trusted instead of the usual ones. */
  findAddresses?: FindAddresses;
  ca?: string;
};

export class Outgoing {
  readonly policy: OutgoingPolicy;
  readonly #limits: OutgoingLimits;
  readonly #ca: string | undefined;

  constructor({ allowedHosts, limits, findAddresses, ca }: OutgoingOptions) {
    this.policy = new OutgoingPolicy({ allowedHosts, ...(findAddresses && { findAddresses }) });
    this.#limits = { ...defaultLimits, ...limits };
    this.#ca = ca;
  }

  /** For requests to the origin of this URL. */
  open(url: string): OutgoingSession {
    return new OutgoingSession(url, {
      policy: this.policy,
      limits: this.#limits,
      ...(this.#ca !== undefined && { ca: this.#ca }),
    });
  }
}
