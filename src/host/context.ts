// Composes a host out of its parts; the only place that knows them all.
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Host } from "../contract/host.ts";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { type Loop, startLoop } from "../core/loop.ts";
import type { SealKey } from "../core/seal.ts";
import type { SandboxApi } from "../sandbox-api/session.ts";
import type { HostConfig } from "./config.ts";
import type { Driver } from "./drivers/driver.ts";
import type { Images, ResolvedImage } from "./images/images.ts";
import type { OpenGuest } from "./instances/guest-slot.ts";
import { InstanceMaker } from "./instances/maker.ts";
import { InstanceManager } from "./instances/manager.ts";
import { startPulse } from "./instances/pulse.ts";
import { recoverInstances } from "./instances/recover.ts";
import { Remover } from "./instances/remover.ts";
import { startStandby } from "./instances/standby.ts";
import { WarmPool } from "./instances/warm-pool.ts";
import { createServe } from "./serve.ts";

/** The first time before the hour is over, because some daemons do not live that long, but not amid the work of the start. */
const imageCollection = { intervalMs: 3_600_000, firstAfterMs: 5 * 60_000 };

export type HostParts = {
  config: HostConfig;
  driver: Driver;
  images: Images;
  sandboxApi: SandboxApi;
  openGuest: OpenGuest;
  sealKey: SealKey;
  log: Logger;
  /** How long after a failed attempt an instance of nobody is destroyed again. */
  removeRetryMs?: number;
};

export type RunningHost = Host &
  AsyncDisposable & {
    /** Resolves when every wanted image has its warm instances, or could not get them. */
    warmed(): Promise<void>;
  };

/** Resolves when the instances of an earlier daemon are adopted or gone; disposing puts the rest to sleep and lets go of them. */
export async function openHost(parts: HostParts): Promise<RunningHost> {
  const { config, driver, images, sandboxApi, openGuest, sealKey, log, removeRetryMs = 10_000 } = parts;
  const instancesDir = join(config.dataDir, "instances");
  mkdirSync(instancesDir, { recursive: true, mode: 0o700 });
  await checkMachine(driver);
  await driver.prepare();

  const onLost = (id: string, reason: string): void => {
    const warm = pool.lost(id);
    if (warm === undefined) manager.guestLost(id, reason);
    else void maker.destroy(warm);
  };
  const remover = new Remover({ driver, log, retryMs: removeRetryMs });
  const { processesMax } = config;
  const initDigest = await digestFile(config.guestBinary);
  const made = { instancesDir, driver, openGuest, processesMax, initDigest };
  const maker = new InstanceMaker({ ...made, remover, log, onLost });
  const pool = new WarmPool({
    size: config.warmInstances,
    log,
    make: async (image, signal) => {
      using _held = images.hold(image);
      return await maker.make(image, undefined, signal);
    },
    destroy: (instance) => maker.destroy(instance),
    always: () => config.warmImages.map((name) => images.find(name)).filter((image): image is ResolvedImage => !!image),
  });
  const absent = config.warmInstances > 0 ? config.warmImages.filter((name) => images.find(name) === undefined) : [];
  if (absent.length > 0) log.warn({ images: absent }, "images of CATNAP_WARM_IMAGES are not on this machine yet");
  const manager = new InstanceManager({ driver, images, sandboxApi, openGuest, maker, pool, sealKey, log });
  await recoverInstances({ instancesDir, driver, manager, maker, pool, remover, log });
  const standby = startStandby({ instances: () => manager.values(), idleTimeoutMs: config.idleTimeoutMs, log });
  const pulse = startPulse({ instances: () => manager.values(), driver, log });
  const collection = startCollection(config, { images, manager, pool, log });
  pool.poke();

  const { handle, upgrade } = createServe({ find: (instanceId) => manager.find(instanceId), log });
  return {
    handle,
    upgrade,
    createInstance: (request, options) => manager.createInstance(request, options),
    deleteInstance: (instanceId) => manager.deleteInstance(instanceId),
    instanceStatus: (instanceId) => manager.instanceStatus(instanceId),
    resealInstances: (signal) => manager.resealClaims(instancesDir, signal),
    listInstances: () => manager.listInstances(),
    listImages: () => images.list(),
    findImage: (name) => images.describe(name),
    describeImages: () => images.describeAll(),
    removeImage: (name) => removeImage(name, { images, manager, pool }),
    warmed: () => pool.filled(),
    async [Symbol.asyncDispose]() {
      await collection[Symbol.asyncDispose]();
      await pulse[Symbol.asyncDispose]();
      await standby[Symbol.asyncDispose]();
      await pool[Symbol.asyncDispose]();
      await manager.release();
      await remover[Symbol.asyncDispose]();
    },
  };
}

function startCollection(
  { imageRetentionMs, warmImages }: HostConfig,
  { images, manager, pool, log }: { images: Images; manager: InstanceManager; pool: WarmPool; log: Logger },
): Loop {
  const isWanted = (digest: string): boolean => warmImages.some((name) => images.find(name)?.digest === digest);
  return startLoop({
    name: "image collection",
    ...imageCollection,
    log,
    work: async (signal) => {
      await images.collect({
        retentionMs: imageRetentionMs,
        isUsed: (digest) => manager.usesImage(digest) || isWanted(digest),
        isWarm: (digest) => pool.usesImage(digest),
        forgetWarm: (digest) => pool.forget(digest),
        signal,
      });
    },
  });
}

async function removeImage(
  name: string,
  { images, manager, pool }: { images: Images; manager: InstanceManager; pool: WarmPool },
): Promise<"removed" | "in_use" | "unknown"> {
  const entry = images.describe(name);
  if (entry === undefined) return "unknown";
  if (manager.usesImage(entry.digest)) return "in_use";
  if (entry.kind === "pulled") await pool.forget(entry.digest);
  return images.remove(name, ({ digest }) => manager.usesImage(digest) || pool.usesImage(digest));
}

/** Empty for a file that is not there: what is made with it fails by itself, with the driver's own words. */
async function digestFile(path: string): Promise<string> {
  const content = await readFile(path).catch(() => Buffer.alloc(0));
  return content.length === 0 ? "" : createHash("sha256").update(content).digest("hex");
}

async function checkMachine(driver: Driver): Promise<void> {
  const problems = await driver.fingerprint();
  if (problems.length === 0) return;
  const lines = problems.map(({ problem, remedy }) => `  - ${problem}: ${remedy}`).join("\n");
  throw new AppError("unavailable", `This machine cannot run sandboxes with the ${driver.name} driver:\n${lines}`);
}
