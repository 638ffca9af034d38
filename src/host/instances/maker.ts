// Makes instances through the driver: directory and record first, then the instance, then the connection to its init.
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { isDiskFull } from "../../core/disk-full.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { Driver, InstanceLimits, InstanceSpec } from "../drivers/driver.ts";
import { Slots } from "../guest/slots.ts";
import type { ResolvedImage } from "../images/images.ts";
import type { GuestConnection, OpenGuest } from "./guest-slot.ts";
import { createInstanceDir, type InstanceRecord, markDestroying, writeRecord } from "./record.ts";
import type { Remover } from "./remover.ts";

/** Every sandbox calls itself this, because a warm instance does not know its name yet. */
const hostname = "sandbox";

/** What a warm instance may use before somebody claims it. */
const warmMemoryMb = 256;

export type MadeInstance = { record: InstanceRecord; dir: string; guest: GuestConnection };

export type MakerOptions = {
  instancesDir: string;
  driver: Driver;
  openGuest: OpenGuest;
  processesMax: number;
  /** Digest of the init's binary that instances are made with. */
  initDigest: string;
  remover: Remover;
  log: Logger;
  /** Told when the init of an instance made here is gone, whether it is claimed by then or not. */
  onLost: (id: string, reason: string) => void;
};

/** A start keeps a processor busy: more at once finish none of them sooner, and slow down everybody else. */
const slotLimits = {
  slots: 2 * availableParallelism(),
  waitingMax: 1_000,
  waitMs: 120_000,
  refusal: "Too many sandboxes are being made at once; try again.",
};

export class InstanceMaker {
  readonly #options: MakerOptions;
  readonly #slots = new Slots(slotLimits);

  constructor(options: MakerOptions) {
    this.#options = options;
  }

  get initDigest(): string {
    return this.#options.initDigest;
  }

  limits(memoryMb: number): InstanceLimits {
    return { memoryMb, cpuCores: memoryMb / 2048, processesMax: this.#options.processesMax };
  }

  spec(record: InstanceRecord, dir: string): InstanceSpec {
    const imageRoot = record.image.rootDir;
    return { id: record.id, dir, imageRoot, hostname, limits: this.limits(record.claim?.memoryMb ?? warmMemoryMb) };
  }

  /** Makes an instance that belongs to nobody; leaves nothing behind when it rejects. */
  async make(image: ResolvedImage, memoryMb: number | undefined, signal: AbortSignal): Promise<MadeInstance> {
    const { driver, instancesDir, remover } = this.#options;
    using _slot = await this.#slots.take(signal);
    const record: InstanceRecord = {
      version: 1,
      id: randomToken(12),
      phase: "creating",
      image,
      initDigest: this.initDigest,
      guestSocketPath: "",
      claim: undefined,
      lastUsedAt: new Date().toISOString(),
      errors: [],
    };
    const dir = join(instancesDir, record.id);
    try {
      createInstanceDir(dir, record);
      const spec = this.spec(record, dir);
      const handle = await driver.create({ ...spec, limits: this.limits(memoryMb ?? warmMemoryMb) }, signal);
      record.guestSocketPath = handle.guestSocketPath;
      const guest = await this.connect(record);
      record.phase = "warm";
      writeRecord(dir, record);
      return { record, dir, guest };
    } catch (error) {
      await remover.remove(record.id, dir);
      const failure = toAppError(error);
      if (failure.code !== "internal") throw failure;
      if (isDiskFull(error)) {
        throw new AppError("unavailable", "The platform has no room for another sandbox.", { cause: error });
      }
      // What programs of the machine have said is for the log: it names the host's paths.
      throw new AppError("internal", "The sandbox could not be started; the platform's log says why.", {
        cause: error,
      });
    }
  }

  /** Connects to the init of an instance that is not claimed yet. */
  connect(record: InstanceRecord): Promise<GuestConnection> {
    const { openGuest, log, onLost } = this.#options;
    return openGuest({ socketPath: record.guestSocketPath, log, onLost: (reason) => onLost(record.id, reason) });
  }

  /** Never rejects: what cannot be destroyed now is tried again. */
  async destroy({ record, dir, guest }: MadeInstance): Promise<void> {
    const { remover, log } = this.#options;
    markDestroying(dir, record, log);
    await guest[Symbol.asyncDispose]();
    await remover.remove(record.id, dir);
  }
}
