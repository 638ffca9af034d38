// Why a process of an instance died: the kernel says how many it killed for want of memory and how many there are, never which.
import { BoundedMap } from "../../core/bounded-map.ts";
import { AppError } from "../../core/errors.ts";
import type { ProcessEnd } from "../../sandbox-api/machine.ts";
import type { ProcessCount } from "../drivers/driver.ts";

const sigkill = 9;
/** What a shell ends with when a command of its was killed so. */
const killedCode = 128 + sigkill;
/** Counts read this short a time ago stand for those of now: starting many short commands does not read them for each. */
const freshMs = 50;
const watchedMax = 8_192;

export type Counters = { countOomKills(): number; countProcesses(): ProcessCount | undefined };

type Counts = { kills: number; processes: ProcessCount | undefined };
type Watched = { before: Counts; isKilledByUs: boolean; processLimit?: number };

export class DeathCauses {
  readonly #counters: Counters;
  readonly #now: () => number;
  readonly #watched = new BoundedMap<string, Watched>(watchedMax);
  #last: (Counts & { atMs: number }) | undefined;
  /** Kills that explain an end already: another end needs another kill. */
  #attributed = 0;

  constructor(counters: Counters, now: () => number = () => performance.now()) {
    this.#counters = counters;
    this.#now = now;
  }

  /** The process is about to start, or was found running. */
  started(token: string): void {
    if (this.#watched.get(token) !== undefined) return;
    const nowMs = this.#now();
    if (this.#last === undefined || nowMs - this.#last.atMs > freshMs) {
      const kills = this.#counters.countOomKills();
      this.#last = { kills, processes: this.#counters.countProcesses(), atMs: nowMs };
    }
    this.#watched.set(token, { before: this.#last, isKilledByUs: false });
  }

  signalled(token: string, signal: number): void {
    const watched = this.#watched.get(token);
    if (watched !== undefined && signal === sigkill) watched.isKilledByUs = true;
  }

  /** The end with what is known of its cause; the same until `forget`, because whoever takes it may ask again. */
  explain(token: string, end: ProcessEnd): ProcessEnd {
    if ("code" in end && end.code === 0) return end;
    const watched = this.#watched.get(token);
    if (watched === undefined || watched.isKilledByUs) return end;
    const isKill = "signal" in end ? end.signal === sigkill : end.code === killedCode;
    if (isKill && this.#hasKilledSince(watched.before.kills)) return { ...end, outOfMemory: true };
    watched.processLimit ??= this.#limitReachedSince(watched.before.processes);
    const { processLimit } = watched;
    return processLimit === undefined ? end : { ...end, processLimit };
  }

  /** A start that was refused because there are as many processes as may be is told with their number. */
  explainRefusal(error: unknown): unknown {
    const isRefusal = error instanceof AppError && error.details?.step === "fork" && error.details.errno === "EAGAIN";
    const processes = isRefusal ? this.#counters.countProcesses() : undefined;
    if (processes === undefined) return error;
    const { current, max, peak = max } = processes;
    if (current < max && peak < max) return error;
    return new AppError(
      "unprocessable",
      `No process can be started: the sandbox has come to its limit of ${max} processes, threads included ` +
        "(CATNAP_PROCESSES_MAX of the platform). End some of them first.",
      { cause: error, details: { ...(error as AppError).details, processLimit: max } },
    );
  }

  /** The end was taken. */
  forget(token: string, end: ProcessEnd): void {
    this.#watched.delete(token);
    if (end.outOfMemory) this.#attributed++;
  }

  /** The instance starts anew, and so do its counters. */
  reset(): void {
    this.#watched.clear();
    this.#last = undefined;
    this.#attributed = 0;
  }

  #hasKilledSince(before: number): boolean {
    const kills = this.#counters.countOomKills();
    return kills > before && kills > this.#attributed;
  }

  /**
   * What programs are refused is counted nowhere, but how many processes there are is: at the end, with the one that has ended; and the
   * most there ever were, which says when it was reached only once in an instance's life.
   */
  #limitReachedSince(before: ProcessCount | undefined): number | undefined {
    const now = this.#counters.countProcesses();
    if (now === undefined) return undefined;
    const { limit, max, current, peak = Number.POSITIVE_INFINITY } = now;
    if (before?.refusals !== undefined && now.refusals !== undefined && now.refusals > before.refusals) return max;
    if (peak < limit) return undefined;
    const hasPeaked = now.peak !== undefined && before?.peak !== undefined && before.peak < limit;
    return hasPeaked || current + 1 >= limit ? limit : undefined;
  }
}
