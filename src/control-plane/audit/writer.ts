// Writes entries of the audit log together: those that arrive while the database is busy with the ones before share a commit.
import { randomToken } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { AuditLogTable } from "../db/tables/audit-log.ts";
import type { AuditStore } from "./store.ts";

/** Beyond this many that wait for the database, an entry goes to the log alone. */
const waitingMax = 10_000;

export class AuditWriter {
  readonly #store: Pick<AuditStore, "insert">;
  readonly #log: Logger;
  #waiting: AuditLogTable[] = [];
  #next: Promise<void> | undefined;
  #current: Promise<void> = Promise.resolve();
  /** Ids go up within a millisecond too, and when the clock is set back. */
  #last = { ms: 0, count: 0 };

  constructor(store: Pick<AuditStore, "insert">, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  /** Resolves once the entry is durable, or the log has it because the database fails. */
  write(draft: Omit<AuditLogTable, "id" | "at">): Promise<void> {
    const row = { ...draft, ...this.#stamp() };
    if (this.#waiting.length >= waitingMax) {
      this.#log.error({ entry: row }, "an entry of the audit log found no room");
      return Promise.resolve();
    }
    this.#waiting.push(row);
    this.#next ??= this.#current.then(() => this.#writeWaiting());
    return this.#next;
  }

  async finish(): Promise<void> {
    await (this.#next ?? this.#current);
  }

  #writeWaiting(): Promise<void> {
    const rows = this.#waiting;
    this.#waiting = [];
    this.#next = undefined;
    this.#current = this.#store.insert(rows).catch((error: unknown) => {
      for (const entry of rows) this.#log.error({ err: error, entry }, "an entry of the audit log was not stored");
    });
    return this.#current;
  }

  #stamp(): Pick<AuditLogTable, "id" | "at"> {
    const ms = Math.max(Date.now(), this.#last.ms);
    this.#last = { ms, count: ms === this.#last.ms ? this.#last.count + 1 : 0 };
    const count = this.#last.count.toString(36).padStart(4, "0");
    return { id: `${firstIdAt(ms)}${count}${randomToken(6)}`, at: new Date(ms).toISOString() };
  }
}

/** The smallest id of a time. */
export function firstIdAt(ms: number): string {
  return Math.max(0, ms).toString(36).padStart(9, "0");
}
