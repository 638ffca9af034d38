// The file that says what an instance directory is for: written before every step, read again after a restart of the daemon.
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { InfrastructureError } from "../../contract/host.ts";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { ResolvedImage } from "../images/images.ts";

/**
 * Phases of an instance directory. Only `warm` and `claimed` survive a restart of the daemon; everything else is destroyed then.
 *
 *   creating ──► warm ──► claimed ──► destroying ──► (directory gone)
 *       └───────────────────▲  └──────────▲
 */
export type InstancePhase = "creating" | "warm" | "claimed" | "destroying";

/** The sandbox an instance serves. `sealedEnvironment` is sealed for the instance's own id. */
export type Claim = {
  instanceId: string;
  workspace: string;
  sandboxName: string;
  memoryMb: number;
  sealedEnvironment: string;
};

export type InstanceRecord = {
  version: 1;
  id: string;
  phase: InstancePhase;
  /** Whole, so that an instance outlives its image's entry in the catalogue. */
  image: ResolvedImage;
  /** Where the init listens; empty until the driver has made the instance. */
  guestSocketPath: string;
  claim: Claim | undefined;
  lastUsedAt: string;
  errors: InfrastructureError[];
};

const errorsKept = 20;
const recordFile = "instance.json";

/** `durable` writes survive the machine as well as the daemon: for what a caller is told. */
export function writeRecord(dir: string, record: InstanceRecord, { durable = false } = {}): void {
  const errors = record.errors.slice(-errorsKept);
  writeFileAtomic(join(dir, recordFile), JSON.stringify({ ...record, errors }), { durable });
}

export function createInstanceDir(instancesDir: string, record: InstanceRecord): string {
  const dir = join(instancesDir, record.id);
  mkdirSync(join(dir, "state"), { recursive: true, mode: 0o700 });
  writeRecord(dir, record);
  return dir;
}

export type FoundDir = { id: string; dir: string; record: InstanceRecord | "none" | "unreadable" };

/** Every instance directory with its record; `none` is a directory whose record was never written. */
export function readRecords(instancesDir: string): FoundDir[] {
  mkdirSync(instancesDir, { recursive: true, mode: 0o711 });
  return readdirSync(instancesDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^[a-z0-9]{8,32}$/.test(entry.name))
    .map(({ name: id }) => ({ id, dir: join(instancesDir, id), record: readRecord(join(instancesDir, id)) }));
}

function readRecord(dir: string): FoundDir["record"] {
  let text: string;
  try {
    text = readFileSync(join(dir, recordFile), "utf8");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "none" : "unreadable";
  }
  try {
    const record = JSON.parse(text) as InstanceRecord;
    return record.version === 1 ? record : "unreadable";
  } catch {
    return "unreadable";
  }
}
