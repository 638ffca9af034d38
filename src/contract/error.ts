// Error bodies of the control plane (spec 2.17): the general one, and the richer one of creating a sandbox, which contains it.
import Type, { type Static } from "typebox";

export const ErrorBody = Type.Object(
  {
    /** What kind of failure it is, e.g. `not_found`. */
    error: Type.String(),
    /** The HTTP status. */
    code: Type.Integer(),
    message: Type.String(),
  },
  { title: "Error" },
);
export type ErrorBody = Static<typeof ErrorBody>;

export const SandboxErrorBody = Type.Object(
  {
    error: Type.String(),
    /** Stable and textual here, e.g. `INVALID_IMAGE` or `SANDBOX_ALREADY_EXISTS`. */
    code: Type.String(),
    message: Type.String(),
    sandbox_name: Type.Optional(Type.String()),
    status_code: Type.Integer(),
    /** How far the creation came. */
    step: Type.String(),
    timestamp: Type.String(),
    workspace: Type.Optional(Type.String()),
    /** `CREATION_IN_PROGRESS` when the name is held by a creation that has not ended. */
    reason: Type.Optional(Type.String()),
    details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { title: "SandboxError" },
);
export type SandboxErrorBody = Static<typeof SandboxErrorBody>;
