// What a kind of service that offers models is: where it is reached, how it takes a credential, and how its models are read.
import type { Texts } from "../record.ts";

export type Provider = {
  /** The key of `spec.config` that says where it is, when not at its usual address. */
  addressKey: string;
  /** Where its operations are, without a slash at the end; throws `invalid_request` when the settings do not say it. */
  baseUrl(config: Texts): string;
};
