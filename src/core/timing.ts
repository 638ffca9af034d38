// Collects the phases a request spends its time in and renders them as a Server-Timing header (W3C Server Timing).
import type { IncomingMessage } from "node:http";

/** Phases that answers name. `total` is added when the header is rendered. */
export type Phase = "auth" | "store" | "claim" | "wake" | "guest" | "proxy";

/** Per-request stopwatch; durations in milliseconds. A phase that is entered twice adds up. */
export class Timing {
  readonly #startedAt = performance.now();
  readonly #phases = new Map<Phase, number>();

  add(phase: Phase, durationMs: number): void {
    this.#phases.set(phase, (this.#phases.get(phase) ?? 0) + durationMs);
  }

  async measure<T>(phase: Phase, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      this.add(phase, performance.now() - startedAt);
    }
  }

  measureSync<T>(phase: Phase, work: () => T): T {
    const startedAt = performance.now();
    try {
      return work();
    } finally {
      this.add(phase, performance.now() - startedAt);
    }
  }

  /** The header's value, e.g. `auth;dur=0.05, wake;dur=0.41, total;dur=1.2`. */
  header(): string {
    let value = "";
    for (const [phase, durationMs] of this.#phases) value += `${phase};dur=${durationMs.toFixed(3)}, `;
    return `${value}total;dur=${(performance.now() - this.#startedAt).toFixed(3)}`;
  }
}

const timings = new WeakMap<IncomingMessage, Timing>();

/** The stopwatch of a request, started when it is first asked for: every server asks on arrival. */
export function timingOf(request: IncomingMessage): Timing {
  let timing = timings.get(request);
  if (timing === undefined) {
    timing = new Timing();
    timings.set(request, timing);
  }
  return timing;
}
