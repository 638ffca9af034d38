// Makes commits durable without holding up the process: a worker thread syncs SQLite's log, once for all commits that wait for it.
// (`synchronous = FULL` would sync on the main thread, where sleeping sandboxes are woken, too.)
import { closeSync, fdatasync, openSync } from "node:fs";
import { promisify } from "node:util";

const syncFile = promisify(fdatasync);

export class LogSync implements Disposable {
  readonly #file: number;
  #next: Promise<void> | undefined;
  #current: Promise<unknown> = Promise.resolve();

  constructor(logPath: string) {
    this.#file = openSync(logPath, "r");
  }

  /** Resolves once everything committed before this call is on disk. */
  sync(): Promise<void> {
    this.#next ??= this.#current
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        const syncing = syncFile(this.#file);
        this.#current = syncing;
        return syncing;
      });
    return this.#next;
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}
