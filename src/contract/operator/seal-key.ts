// The sealing key as the operator sees it: which one is in use and how its change goes, never the key itself.
import Type, { type Static } from "typebox";
import { endpoint } from "../endpoint.ts";

export const SealKeyRotation = Type.Object({
  /** `settling`: waiting until nothing that was sealed before can still be on its way to the database. */
  phase: Type.Enum(["sealing", "settling", "done", "failed"]),
  /** Texts sealed anew since the change began, or was taken up again. */
  resealed: Type.Integer(),
  /** Texts in the database that are still to come. */
  remaining: Type.Integer(),
  reason: Type.Optional(Type.String()),
});
export type SealKeyRotation = Static<typeof SealKeyRotation>;

export const SealKeyStatus = Type.Object({
  /** Tells keys apart and reveals nothing of them. */
  keyId: Type.String(),
  /** Not empty while a change has not ended. */
  previousKeyIds: Type.Array(Type.String()),
  source: Type.Enum(["file", "environment"]),
  /** Since the platform started. */
  rotation: Type.Optional(SealKeyRotation),
});
export type SealKeyStatus = Static<typeof SealKeyStatus>;

export const getSealKey = endpoint({
  method: "GET",
  path: "/seal-key",
  summary: "Say which sealing key is in use, and how its change goes",
  tag: "operator",
  scope: "admin",
  response: SealKeyStatus,
});

export const rotateSealKey = endpoint({
  method: "POST",
  path: "/seal-key/rotation",
  summary: "Seal everything with a new key, or go on doing so",
  tag: "operator",
  scope: "admin",
  response: SealKeyStatus,
});
