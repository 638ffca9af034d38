// Collects the phases a request spends its time in and renders them as a Server-Timing header (W3C Server Timing).
import type { IncomingMessage } from "node:http";
import type { Eventual } from "./eventual.ts";

/** Phases that answers name. `total` is added when the header is rendered. */
export type Phase = "auth" | "store" | "claim" | "wake" | "guest" | "proxy";

/** Per-request stopwatch; durations in milliseconds. A phase that is entered twice adds up. */
export class Timing {
  readonly #startedAt = performance.now();
  /** In the order in which they were first entered. */
  readonly #phases: { name: Phase; durationMs: number }[] = [];

  add(name: Phase, durationMs: number): void {
    for (const phase of this.#phases) {
      if (phase.name !== name) continue;
      phase.durationMs += durationMs;
      return;
    }
    this.#phases.push({ name, durationMs });
  }

  measure<T>(phase: Phase, work: () => Promise<T>): Promise<T>;
  measure<T>(phase: Phase, work: () => Eventual<T>): Eventual<T>;
  measure<T>(phase: Phase, work: () => Eventual<T>): Eventual<T> {
    const startedAt = performance.now();
    const stop = (): void => this.add(phase, performance.now() - startedAt);
    let result: Eventual<T>;
    try {
      result = work();
    } catch (error) {
      stop();
      throw error;
    }
    if (result instanceof Promise) return result.finally(stop);
    stop();
    return result;
  }

  /** The header's value, e.g. `auth;dur=0.05, wake;dur=0.41, total;dur=1.2`. */
  header(): string {
    let value = "";
    for (const { name, durationMs } of this.#phases) value += `${name};dur=${durationMs.toFixed(3)}, `;
    return `${value}total;dur=${(performance.now() - this.#startedAt).toFixed(3)}`;
  }
}

const stopwatch = Symbol("timing");

/** The stopwatch of a request, started when it is first asked for: every server asks on arrival. */
export function timingOf(request: IncomingMessage & { [stopwatch]?: Timing }): Timing {
  request[stopwatch] ??= new Timing();
  return request[stopwatch];
}
