// Why a process of an instance died: the kernel says how many it killed for want of memory, never which.
import { BoundedMap } from "../../core/bounded-map.ts";
import type { ProcessEnd } from "../../sandbox-api/machine.ts";

const sigkill = 9;
/** What a shell ends with when a command of its was killed so. */
const killedCode = 128 + sigkill;
/** A count read this short a time ago stands for that of now: starting many short commands does not read it for each. */
const freshMs = 50;
const watchedMax = 8_192;

type Watched = { killsBefore: number; isKilledByUs: boolean };

export class DeathCauses {
  readonly #countOomKills: () => number;
  readonly #now: () => number;
  readonly #watched = new BoundedMap<string, Watched>(watchedMax);
  #last: { kills: number; atMs: number } | undefined;
  /** Kills that explain an end already: another end needs another kill. */
  #attributed = 0;

  constructor(countOomKills: () => number, now: () => number = () => performance.now()) {
    this.#countOomKills = countOomKills;
    this.#now = now;
  }

  /** The process is about to start, or was found running. */
  started(token: string): void {
    if (this.#watched.get(token) !== undefined) return;
    const nowMs = this.#now();
    if (this.#last === undefined || nowMs - this.#last.atMs > freshMs) {
      this.#last = { kills: this.#countOomKills(), atMs: nowMs };
    }
    this.#watched.set(token, { killsBefore: this.#last.kills, isKilledByUs: false });
  }

  signalled(token: string, signal: number): void {
    const watched = this.#watched.get(token);
    if (watched !== undefined && signal === sigkill) watched.isKilledByUs = true;
  }

  /** The end with what is known of its cause; the same until `forget`, because whoever takes it may ask again. */
  explain(token: string, end: ProcessEnd): ProcessEnd {
    const isKill = "signal" in end ? end.signal === sigkill : end.code === killedCode;
    const watched = this.#watched.get(token);
    if (!isKill || watched === undefined || watched.isKilledByUs) return end;
    const kills = this.#countOomKills();
    return kills > watched.killsBefore && kills > this.#attributed ? { ...end, outOfMemory: true } : end;
  }

  /** The end was taken. */
  forget(token: string, end: ProcessEnd): void {
    this.#watched.delete(token);
    if (end.outOfMemory) this.#attributed++;
  }

  /** The instance starts anew, and so does its counter. */
  reset(): void {
    this.#watched.clear();
    this.#last = undefined;
    this.#attributed = 0;
  }
}
