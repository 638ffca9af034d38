// Waits for a condition by asking, with a deadline, and repeats what a slow machine did too late; tests never sleep for a guessed time.
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

const attemptsMax = 20;

/** For what must be done before something happens by itself, so long after the attempt began: one that fails later is made again. */
export async function inTime<T>(
  timeMs: number,
  { attempt, again }: { attempt: () => Promise<T>; again: () => Promise<void> },
): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    const beganMs = performance.now();
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() - beganMs < timeMs || attempts === attemptsMax) throw error;
    }
    await again();
  }
}
