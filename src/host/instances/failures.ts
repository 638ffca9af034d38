// What went wrong with one instance, as whoever reads its sandbox is told.
import type { Logger } from "../../core/log.ts";
import { addError, type InstanceRecord } from "./record.ts";

/** Kills that follow each other closely are told once: they would drive everything else out of the list. */
const outOfMemoryPauseMs = 60_000;

export class Failures {
  readonly #record: InstanceRecord;
  readonly #save: () => void;
  readonly #log: Logger;
  #outOfMemoryToldMs = Number.NEGATIVE_INFINITY;

  constructor({ record, save, log }: { record: InstanceRecord; save: () => void; log: Logger }) {
    this.#record = record;
    this.#save = save;
    this.#log = log;
  }

  add(code: string, message: string): void {
    this.#log.warn({ code, reason: message }, "instance failure");
    addError(this.#record, code, message);
    this.#save();
  }

  /** A process was killed for want of memory; the instance goes on. */
  addOutOfMemory(): void {
    const nowMs = performance.now();
    if (nowMs - this.#outOfMemoryToldMs < outOfMemoryPauseMs) return;
    this.#outOfMemoryToldMs = nowMs;
    this.add("OUT_OF_MEMORY", "The sandbox ran out of memory and a process in it was killed; the others go on.");
  }
}
