// Seals what instances keep secret with the current key, after the installation's key was rotated.
import { setImmediate as turn } from "node:timers/promises";
import type { Logger } from "../../core/log.ts";
import { runCommand } from "../../core/run-command.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Instance } from "./instance.ts";
import { writeRecord } from "./record.ts";
import { resealClaim } from "./sealed-claim.ts";

const syncTimeoutMs = 300_000;

/** What is claimed meanwhile is sealed with the current key already. */
export async function resealInstances(
  instances: readonly Instance[],
  { sealKey, instancesDir, log, signal }: { sealKey: SealKey; instancesDir: string; log: Logger; signal: AbortSignal },
): Promise<{ resealed: number; unreadable: number }> {
  let resealed = 0;
  let unreadable = 0;
  for (const { record, dir } of instances) {
    signal.throwIfAborted();
    if (record.claim === undefined || record.phase !== "claimed") continue;
    try {
      const claim = resealClaim(sealKey, record.id, record.claim);
      if (claim === undefined) continue;
      record.claim = claim;
      writeRecord(dir, record);
      resealed += 1;
    } catch (error) {
      log.error({ instance: record.id, err: error }, "an instance's environment was not sealed anew");
      unreadable += 1;
    }
    // A request in progress goes first.
    await turn();
  }
  if (resealed > 0) await runCommand("sync", ["-f", instancesDir], { timeoutMs: syncTimeoutMs, signal });
  return { resealed, unreadable };
}
