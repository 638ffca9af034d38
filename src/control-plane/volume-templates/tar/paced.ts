// Lets an archive that is laborious to check take turns with everything else on the event loop, which wakes sleeping sandboxes.
import { setImmediate } from "node:timers/promises";
import type { TarCheck } from "./check.ts";

const pieceBytes = 32_768;
/** A piece of content takes microseconds; only one full of headers takes longer than this. */
const turnMs = 0.5;

export async function checkInTurns(check: TarCheck, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; at += pieceBytes) {
    const startedAt = performance.now();
    check.write(chunk.subarray(at, at + pieceBytes));
    if (performance.now() - startedAt > turnMs) await setImmediate();
  }
}
