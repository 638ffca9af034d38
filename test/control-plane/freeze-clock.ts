// Stops the clock that limits of rates are counted by: how slow a machine is gives nobody another attempt.
import type { TestContext } from "node:test";

/** Until the test is over. */
export function freezeClock(t: TestContext): void {
  const now = performance.now();
  t.mock.method(performance, "now", () => now);
}
