// Waits for a condition by asking, with a deadline; tests never sleep for a guessed time.
import { setTimeout as delay } from "node:timers/promises";

/** Repeats `check` until it stops throwing; past the deadline, far beyond what a slow machine needs, its last failure is thrown. */
export async function eventually<T>(
  check: () => T | Promise<T>,
  { timeoutMs = 60_000, intervalMs = 50 } = {},
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await delay(intervalMs);
  }
}
