// Waits for a condition of the kernel that sends no event: asks soon at first, then less often, up to a deadline.
import { setTimeout as delay } from "node:timers/promises";

export type WaitOptions = { timeoutMs: number; signal?: AbortSignal };

/** Whether `check` became true before the deadline and the abort. */
export async function waitUntil(check: () => boolean, { timeoutMs, signal }: WaitOptions): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = 0.5; ; pauseMs = Math.min(pauseMs * 2, 20)) {
    if (signal?.aborted) return false;
    if (check()) return true;
    if (performance.now() > deadline) return false;
    await delay(pauseMs);
  }
}
