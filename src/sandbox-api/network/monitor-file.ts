// Keeps which processes' ports are monitored, for the next daemon; sealed, because a callback's URL may carry a token.
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { Type } from "typebox";
import { Check } from "typebox/value";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { Machine } from "../machine.ts";

const sealedFor = "port-monitors";
const fileMaxBytes = 8 * 1024 * 1024;
/** What is told beyond these is told once more by the next daemon. */
const toldMax = 1_024;

const Records = Type.Object({
  /** The start of the machine they belong to: another one's processes have the same numbers. */
  startCount: Type.Integer(),
  monitors: Type.Array(
    Type.Object({
      pid: Type.Integer(),
      /** When the process began, as the kernel tells it: another with its number began at another time. */
      began: Type.String(),
      url: Type.String(),
      told: Type.Array(Type.Integer()),
    }),
    { maxItems: 64 },
  ),
});

export type MonitorRecord = { pid: number; began: string; url: string; told: number[] };

export class MonitorFile {
  readonly #machine: Machine;
  readonly #path: string;

  constructor(machine: Machine) {
    this.#machine = machine;
    this.#path = join(machine.stateDir, "port-monitors");
  }

  save(records: readonly MonitorRecord[]): void {
    if (records.length === 0) return rmSync(this.#path, { force: true });
    const monitors = records.map(({ told, ...record }) => ({ ...record, told: told.slice(0, toldMax) }));
    const text = JSON.stringify({ startCount: this.#machine.startCount, monitors });
    writeFileAtomic(this.#path, this.#machine.stateKey.seal(text, sealedFor));
  }

  /** Those of this start of the machine. Throws when the file makes no sense. */
  load(): MonitorRecord[] {
    const file = statSync(this.#path, { throwIfNoEntry: false });
    if (file === undefined) return [];
    if (file.size > fileMaxBytes) throw new Error("the file is longer than any");
    const read: unknown = JSON.parse(this.#machine.stateKey.open(readFileSync(this.#path, "utf8"), sealedFor));
    if (!Check(Records, read)) throw new Error("the file has another form");
    return read.startCount === this.#machine.startCount ? read.monitors : [];
  }
}
