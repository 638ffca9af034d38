// Feature flags of a workspace (spec 2.15): callers see only those that are on; the operator of the machine turns them on and off.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";

export const featureNameMaxLength = 128;
export const featureNamePattern = "^[A-Za-z][A-Za-z0-9._-]*$";
export const featureVariantMaxLength = 128;
export const featurePayloadMaxBytes = 16_384;

/** `rule` completes "<field> must be ..." when the pattern does not match. */
export const FeatureName = Type.String({
  minLength: 1,
  maxLength: featureNameMaxLength,
  pattern: featureNamePattern,
  rule: "a letter followed by letters, digits, dots, dashes and underscores",
});

export const FeaturePayload = Type.Record(Type.String(), Type.Unknown());

export const Features = Type.Object({
  /** By name; what is off is left out. */
  features: Type.Record(Type.String(), Type.Boolean()),
});
export type Features = Static<typeof Features>;

export const Feature = Type.Object({
  enabled: Type.Boolean(),
  evaluatedAt: Type.String(),
  featureKey: Type.String(),
  /** Empty when the operator has given none. */
  payload: FeaturePayload,
  /** Empty when the operator has given none. */
  variant: Type.String(),
});
export type Feature = Static<typeof Feature>;

export const listFeatures = endpoint({
  method: "GET",
  path: "/features",
  summary: "List the features that are on for the workspace",
  tag: "features",
  scope: "featureFlags:list",
  response: Features,
  errors: [404],
});

export const getFeature = endpoint({
  method: "GET",
  path: "/features/:featureKey",
  summary: "Evaluate one feature for the workspace; one that is off is not found",
  tag: "features",
  scope: "featureFlags:get",
  params: Type.Object({ featureKey: FeatureName }),
  /** Accounts do not exist here: the answer is the workspace's in any case. */
  query: Type.Object({ account: Type.Optional(Type.String({ maxLength: 128 })) }),
  response: Feature,
});
