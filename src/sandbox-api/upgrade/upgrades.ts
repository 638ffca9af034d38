// Upgrades of one sandbox's init: one at a time, in the background, each step kept where the next daemon finds it.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Value } from "typebox/value";
import { UpgradeAttempt } from "../../contract/sandbox-api/health.ts";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Machine } from "../machine.ts";
import type { InitSource } from "./init-source.ts";

const binaryMaxBytes = 16 * 1024 * 1024;
const digestFileMaxBytes = 4_096;
const attemptFile = "upgrade.json";
/** Of an ELF file for 64 bits: its beginning, and where it says for which processor. */
const elf = { magic: Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]), machineOffset: 18, headerBytes: 64 };
const processors: Readonly<Record<string, { name: string; machine: number }>> = {
  x64: { name: "amd64", machine: 62 },
  arm64: { name: "arm64", machine: 183 },
};

/** Far longer than an init tries out another, so that only one that is stopped, or starved, outlives it. */
const patienceMaxMs = 30_000;

export type UpgradesOptions = {
  machine: Machine;
  source: InitSource;
  patienceMs?: number;
  log: Logger;
  ended: AbortSignal;
};

/**
 *   starting ──► download ──► validate ──► replace ──► completed
 *       │                                                            status `running` until the last, then `completed`
 *       └──► skipped, when the shipped init runs already
 *
 * Any step may fail: `status` is `failed` then, and `step` the one that did. `replace` is left again when a late answer says so.
 */
export class Upgrades {
  readonly #options: UpgradesOptions;
  #last: UpgradeAttempt | undefined;
  #running: Promise<void> | undefined;

  constructor(options: UpgradesOptions) {
    this.#options = options;
    this.#last = this.#load();
    if (this.#last?.status !== "running") return;
    const error = `The platform stopped before ${this.#last.step === "replace" ? "it was told how the upgrade went" : "the upgrade was done"}.`;
    this.#save({ ...this.#last, status: "failed", error });
  }

  /** Undefined until one was attempted. */
  get last(): UpgradeAttempt | undefined {
    return this.#last;
  }

  start(version: string, baseUrl: string | undefined): void {
    const { source, machine } = this.#options;
    if (this.#running !== undefined) throw new AppError("conflict", "An upgrade of this sandbox is running already.");
    const downloadUrl = baseUrl === undefined ? undefined : downloadUrlOf(baseUrl, version);
    if (downloadUrl !== undefined) source.requireUrl(downloadUrl);
    const lastAttempt = new Date().toISOString();
    this.#save({ status: "running", step: "starting", version, lastAttempt, ...(downloadUrl && { downloadUrl }) });
    const awake = machine.holdAwake();
    this.#running = this.#run(version, downloadUrl)
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        awake[Symbol.dispose]();
        this.#running = undefined;
      });
  }

  async #run(version: string, downloadUrl: string | undefined): Promise<void> {
    const { machine, ended } = this.#options;
    this.#enter("download");
    const binary = downloadUrl === undefined ? await this.#shipped(version) : await this.#download(downloadUrl);
    if (downloadUrl === undefined && digestOf(binary) === machine.initDigest) {
      return this.#enter("skipped", { status: "completed" });
    }
    ended.throwIfAborted();
    this.#enter("validate", downloadUrl === undefined ? {} : { bytesDownloaded: binary.length });
    requireProgram(binary);
    this.#enter("replace");
    await this.#replace(binary);
  }

  /** What outlives the patience has failed until it is told how it went: an init that was stopped may still take over. */
  async #replace(binary: Buffer): Promise<void> {
    const { machine, patienceMs = patienceMaxMs } = this.#options;
    const { lastAttempt } = this.#last!;
    const replaced = machine.upgrade(binary).then(
      () => () => this.#enter("completed", { status: "completed", error: undefined }),
      (error: unknown) => () => this.#failed(error),
    );
    const enough = new AbortController();
    const late = delay(patienceMs, undefined, { signal: enough.signal }).then(() => {
      void replaced.then((tell) => this.#last?.lastAttempt === lastAttempt && tell());
      throw new AppError(
        "timeout",
        "The init has not answered yet; should it still take over, this report will say so.",
      );
    });
    (await Promise.race([replaced, late]))();
    enough.abort();
  }

  #failed(error: unknown): void {
    const { message, details } = toAppError(error);
    this.#options.log.warn({ version: this.#last!.version, err: error }, "upgrade failed");
    const step = typeof details?.step === "string" ? details.step : this.#last!.step;
    this.#enter(step, { status: "failed", error: message });
  }

  async #shipped(version: string): Promise<Buffer> {
    const { source } = this.#options;
    if (version === "latest" || version === source.version) return source.readShipped();
    throw new AppError(
      "unprocessable",
      `This platform ships version ${source.version} alone; another one needs a 'baseUrl' to download it from.`,
    );
  }

  /** With a digest beside it, or what was cut short or mixed up on its way would be told from nothing. */
  async #download(url: string): Promise<Buffer> {
    const { source } = this.#options;
    const digests = await source.download(`${url}.sha256`, { maxBytes: digestFileMaxBytes });
    const digest = /^([0-9a-f]{64})(?:\s|$)/i.exec(digests.toString("latin1"))?.[1]?.toLowerCase();
    if (digest === undefined) throw new AppError("upstream_failed", `${url}.sha256 does not begin with a SHA-256.`);
    const binary = await source.download(url, { maxBytes: binaryMaxBytes });
    if (digestOf(binary) === digest) return binary;
    const details = { step: "validate" };
    throw new AppError("upstream_failed", `What ${url} has is not what its .sha256 says.`, { details });
  }

  #enter(step: string, more: Partial<UpgradeAttempt> = {}): void {
    this.#save({ ...this.#last!, step, ...more });
  }

  #save(attempt: UpgradeAttempt): void {
    // The file is the next daemon's from here on; it takes what was under way for failed.
    if (this.#options.ended.aborted) return;
    this.#last = attempt;
    try {
      writeFileAtomic(join(this.#options.machine.stateDir, attemptFile), JSON.stringify(attempt));
    } catch (error) {
      this.#options.log.error({ err: error }, "the state of an upgrade was not written");
    }
  }

  #load(): UpgradeAttempt | undefined {
    try {
      const read: unknown = JSON.parse(readFileSync(join(this.#options.machine.stateDir, attemptFile), "utf8"));
      return Value.Check(UpgradeAttempt, read) ? read : undefined;
    } catch {
      return undefined;
    }
  }
}

function downloadUrlOf(baseUrl: string, version: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || url.search !== "" || url.hash !== "") {
    throw new AppError("invalid_request", "'baseUrl' must be a URL without query and fragment.");
  }
  const processor = processors[process.arch]?.name ?? process.arch;
  return `${url.href.replace(/\/+$/, "")}/${version}/catnap-init-linux-${processor}`;
}

function requireProgram(binary: Buffer): void {
  const isElf = binary.length >= elf.headerBytes && binary.subarray(0, elf.magic.length).equals(elf.magic);
  if (isElf && binary.readUInt16LE(elf.machineOffset) === processors[process.arch]?.machine) return;
  throw new AppError("unprocessable", "It is not a program for this machine's processor.");
}

function digestOf(binary: Buffer): string {
  return createHash("sha256").update(binary).digest("hex");
}
