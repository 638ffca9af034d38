// Metadata that every resource carries (spec 2.2): what is returned, and the part of it a caller may give.
import Type, { type Static } from "typebox";
import { displayNameMaxLength, externalIdMaxLength, nameMaxLength } from "../core/names.ts";

export const labelsMax = 64;
export const labelKeyMaxLength = 128;
export const labelValueMaxLength = 256;

/** `rule` completes "<field> must be ..." when the pattern does not match. */
export const Name = Type.String({
  minLength: 1,
  maxLength: nameMaxLength,
  pattern: "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
  rule: "lowercase letters, digits and inner hyphens",
});

export const ExternalId = Type.String({
  minLength: 1,
  maxLength: externalIdMaxLength,
  pattern: "^[A-Za-z0-9-]+$",
  rule: "letters, digits and dashes",
});

export const DisplayName = Type.String({
  maxLength: displayNameMaxLength,
  pattern: "^[^\\u0000-\\u001f\\u007f]*$",
  rule: "without control characters",
});

export const Labels = Type.Record(
  Type.String({ pattern: `^[^\\u0000-\\u001f\\u007f]{1,${labelKeyMaxLength}}$` }),
  Type.String({ maxLength: labelValueMaxLength }),
  {
    maxProperties: labelsMax,
    additionalProperties: false,
    rule: `a map whose keys have 1 to ${labelKeyMaxLength} printable characters`,
  },
);

export const MetadataInput = Type.Object(
  {
    name: Type.Optional(Name),
    displayName: Type.Optional(DisplayName),
    externalId: Type.Optional(ExternalId),
    labels: Type.Optional(Labels),
  },
  { title: "MetadataInput" },
);
export type MetadataInput = Static<typeof MetadataInput>;

export const Metadata = Type.Object(
  {
    name: Type.String(),
    displayName: Type.Optional(Type.String()),
    externalId: Type.Optional(Type.String()),
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    createdAt: Type.String(),
    updatedAt: Type.String(),
    createdBy: Type.String(),
    updatedBy: Type.String(),
    plan: Type.Optional(Type.String()),
    url: Type.Optional(Type.String()),
    workspace: Type.String(),
  },
  { title: "Metadata" },
);
export type Metadata = Static<typeof Metadata>;

/** Something that happened to a deployed resource (spec 2.12). */
export const CoreEvent = Type.Object(
  {
    canaryRevision: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
    revision: Type.Optional(Type.String()),
    status: Type.Optional(Type.String()),
    time: Type.String(),
    type: Type.String(),
  },
  { title: "CoreEvent" },
);
export type CoreEvent = Static<typeof CoreEvent>;
