// The file that says what an instance directory is for: written before every step, read again after a restart of the daemon.
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { InfrastructureError } from "../../contract/host.ts";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { Logger } from "../../core/log.ts";
import type { ResolvedImage } from "../images/images.ts";

/**
 * Phases of an instance directory. Only `warm` and `claimed` survive a restart of the daemon; everything else is destroyed then.
 *
 *   creating ──► warm ──► claimed ──► destroying ──► (directory gone)
 *       └───────────────────▲  └──────────▲
 */
const phases = ["creating", "warm", "claimed", "destroying"] as const;
export type InstancePhase = (typeof phases)[number];

/** The sandbox an instance serves. `sealedEnvironment` is sealed for the instance's own id. */
export type Claim = {
  instanceId: string;
  workspace: string;
  sandboxName: string;
  memoryMb: number;
  sealedEnvironment: string;
  /** The key of what the sandbox API seals, sealed likewise; absent in claims of earlier versions until they are adopted. */
  sealedStateKey?: string;
};

export type InstanceRecord = {
  version: 1;
  id: string;
  phase: InstancePhase;
  /** Whole, so that an instance outlives its image's entry in the catalogue. */
  image: ResolvedImage;
  /** Digest of the init's binary it was made with. */
  initDigest: string;
  /** How often its init was replaced in place; absent until it was. */
  upgradeCount?: number;
  /** How often it was started again after a death, counted before each start; absent until it was. */
  startCount?: number;
  /** Where the init listens; empty until the driver has made the instance. */
  guestSocketPath: string;
  claim: Claim | undefined;
  lastUsedAt: string;
  errors: InfrastructureError[];
};

const errorsKept = 20;
const recordFile = "instance.json";

/** Adds to the bounded list of what happened to the instance: none of it is final, its files are there for another start. */
export function addError(record: InstanceRecord, code: string, message: string): void {
  const error = { code, fatal: false, instance: record.id, message, time: new Date().toISOString() };
  record.errors = [...record.errors, error].slice(-errorsKept);
}

/** `durable` writes survive the machine as well as the daemon: for what a caller is told. */
export function writeRecord(dir: string, record: InstanceRecord, { durable = false } = {}): void {
  writeFileAtomic(join(dir, recordFile), JSON.stringify(record), { durable });
}

/** For what the next daemon would like to know: a full disk must not stop this one. */
export function tryWriteRecord(dir: string, record: InstanceRecord, log: Logger): void {
  try {
    writeRecord(dir, record);
  } catch (error) {
    log.error({ instance: record.id, err: error }, "instance record not written");
  }
}

/** Without this mark a daemon that dies half-way through destroying finds the instance dead. */
export function markDestroying(dir: string, record: InstanceRecord, log: Logger): void {
  record.phase = "destroying";
  tryWriteRecord(dir, record, log);
}

export function createInstanceDir(dir: string, record: InstanceRecord): void {
  mkdirSync(join(dir, "state"), { recursive: true, mode: 0o700 });
  writeRecord(dir, record);
}

export type FoundDir = { id: string; dir: string; record: InstanceRecord | "none" | "unreadable" };

/** Every instance directory with its record; `none` is a directory whose record was never written. */
export function readRecords(instancesDir: string): FoundDir[] {
  mkdirSync(instancesDir, { recursive: true, mode: 0o700 });
  return readdirSync(instancesDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^[a-z0-9]{8,32}$/.test(entry.name))
    .map(({ name: id }) => ({ id, dir: join(instancesDir, id), record: readRecord(id, join(instancesDir, id)) }));
}

function readRecord(id: string, dir: string): FoundDir["record"] {
  let text: string;
  try {
    text = readFileSync(join(dir, recordFile), "utf8");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "none" : "unreadable";
  }
  try {
    const record = JSON.parse(text) as InstanceRecord;
    return isWhole(record) && record.id === id ? record : "unreadable";
  } catch {
    return "unreadable";
  }
}

/** Whether everything is there that a daemon goes by: from the phase alone it may conclude that a directory is to be destroyed. */
function isWhole({
  version,
  phase,
  image,
  initDigest,
  guestSocketPath,
  claim,
  lastUsedAt,
  errors,
}: InstanceRecord): boolean {
  const needsClaim = phase === "claimed";
  return (
    version === 1 &&
    phases.includes(phase) &&
    isText(image.digest, image.rootDir, image.workingDir, image.homeDir, initDigest, guestSocketPath, lastUsedAt) &&
    Array.isArray(errors) &&
    (claim === undefined
      ? !needsClaim
      : isText(claim.instanceId, claim.workspace, claim.sandboxName, claim.sealedEnvironment) && claim.memoryMb > 0)
  );
}

function isText(...values: unknown[]): boolean {
  return values.every((value) => typeof value === "string");
}
