// What a claim keeps secret, on disk: the sandbox's environment and the key of what its API seals, both sealed for the instance's id.
import { randomBytes } from "node:crypto";
import { SealKey } from "../../core/seal.ts";
import type { Claim } from "./record.ts";

type Secrets = Pick<Claim, "sealedEnvironment" | "sealedStateKey">;

export function sealSecrets(sealKey: SealKey, id: string, environment: Record<string, string>): Required<Secrets> {
  return { sealedEnvironment: sealKey.seal(JSON.stringify(environment), id), sealedStateKey: newStateKey(sealKey, id) };
}

/** The claim with a key, which claims of earlier versions lack; undefined when it has one. */
export function withStateKey(sealKey: SealKey, id: string, claim: Claim): Claim | undefined {
  return claim.sealedStateKey === undefined ? { ...claim, sealedStateKey: newStateKey(sealKey, id) } : undefined;
}

export function openEnvironment(sealKey: SealKey, id: string, { sealedEnvironment }: Secrets): Record<string, string> {
  return JSON.parse(sealKey.open(sealedEnvironment, id)) as Record<string, string>;
}

export function openStateKey(sealKey: SealKey, id: string, { sealedStateKey = "" }: Secrets): SealKey {
  return new SealKey(Buffer.from(sealKey.open(sealedStateKey, id), "base64url"));
}

/** The claim sealed with the current key; undefined when it is so already. */
export function resealClaim(sealKey: SealKey, id: string, claim: Claim): Claim | undefined {
  const sealedEnvironment = sealKey.reseal(claim.sealedEnvironment, id);
  const sealedStateKey = claim.sealedStateKey && sealKey.reseal(claim.sealedStateKey, id);
  if (sealedEnvironment === undefined && sealedStateKey === undefined) return undefined;
  return {
    ...claim,
    sealedEnvironment: sealedEnvironment ?? claim.sealedEnvironment,
    sealedStateKey: sealedStateKey ?? claim.sealedStateKey,
  };
}

function newStateKey(sealKey: SealKey, id: string): string {
  return sealKey.seal(randomBytes(32).toString("base64url"), id);
}
