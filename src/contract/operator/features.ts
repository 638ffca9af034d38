// Features of a workspace as the operator of the machine sets them.
import Type, { type Static } from "typebox";
import { endpoint } from "../endpoint.ts";
import { FeatureName, FeaturePayload, featureVariantMaxLength } from "../feature.ts";
import { Name } from "../metadata.ts";

export const FeatureSetting = Type.Object({
  enabled: Type.Boolean(),
  variant: Type.Optional(Type.String({ minLength: 1, maxLength: featureVariantMaxLength })),
  payload: Type.Optional(FeaturePayload),
});
export type FeatureSetting = Static<typeof FeatureSetting>;

/** `operator`: set over this socket. The other two stand in the features file. */
export const featureSources = ["operator", "file", "file default"] as const;

export const FeatureEntry = Type.Object({
  ...FeatureSetting.properties,
  name: Type.String(),
  source: Type.Enum(featureSources),
});
export type FeatureEntry = Static<typeof FeatureEntry>;

export const FeatureEntries = Type.Object({
  features: Type.Array(FeatureEntry),
  file: Type.Optional(
    Type.Object({
      path: Type.String(),
      /** Why the file as it is now is not in effect; the last good one is. */
      problem: Type.Optional(Type.String()),
    }),
  ),
});
export type FeatureEntries = Static<typeof FeatureEntries>;

const InWorkspace = Type.Object({ workspace: Name });
const OneFeature = Type.Object({ workspace: Name, featureKey: FeatureName });

export const listFeatureSettings = endpoint({
  method: "GET",
  path: "/workspaces/:workspace/features",
  summary: "List every feature known for a workspace, with where its setting comes from",
  tag: "operator",
  scope: "admin",
  params: InWorkspace,
  response: FeatureEntries,
});

export const setFeature = endpoint({
  method: "PUT",
  path: "/workspaces/:workspace/features/:featureKey",
  summary: "Turn a feature on or off for a workspace",
  tag: "operator",
  scope: "admin",
  params: OneFeature,
  body: FeatureSetting,
  response: FeatureEntry,
});

export const resetFeature = endpoint({
  method: "DELETE",
  path: "/workspaces/:workspace/features/:featureKey",
  summary: "Forget what the operator has set for a feature: the features file decides again",
  tag: "operator",
  scope: "admin",
  params: OneFeature,
  response: FeatureEntry,
});
