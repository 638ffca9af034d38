// The sealing key as the operator sees it: which one is in use, never the key itself.
import Type, { type Static } from "typebox";
import { endpoint } from "../endpoint.ts";

export const SealKeyStatus = Type.Object({
  /** Tells keys apart and reveals nothing of them. */
  keyId: Type.String(),
});
export type SealKeyStatus = Static<typeof SealKeyStatus>;

export const getSealKey = endpoint({
  method: "GET",
  path: "/seal-key",
  summary: "Say which sealing key is in use",
  tag: "operator",
  scope: "admin",
  response: SealKeyStatus,
});

export const sealKeyEndpoints = [getSealKey];
