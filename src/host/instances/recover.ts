// After a restart of the daemon: takes back what is whole, destroys what an earlier daemon left half-made or half-destroyed.
import { join } from "node:path";
import type { Logger } from "../../core/log.ts";
import type { Driver } from "../drivers/driver.ts";
import type { InstanceMaker } from "./maker.ts";
import type { InstanceManager } from "./manager.ts";
import { addError, type FoundDir, type InstanceRecord, readRecords, writeRecord } from "./record.ts";
import type { Remover } from "./remover.ts";
import type { WarmPool } from "./warm-pool.ts";

export type RecoverOptions = {
  instancesDir: string;
  driver: Driver;
  manager: InstanceManager;
  maker: InstanceMaker;
  pool: WarmPool;
  remover: Remover;
  log: Logger;
};

const recoversAtOnceMax = 8;

/** Resolves when every instance found is adopted, gone, or left alone because it cannot be understood. */
export async function recoverInstances(options: RecoverOptions): Promise<void> {
  const { driver, instancesDir, log } = options;
  const records = readRecords(instancesDir);
  const known = new Set(records.map(({ id }) => id));
  const strays = (await driver.listFound()).filter((id) => !known.has(id));
  const found = [...records, ...strays.map((id): FoundDir => ({ id, dir: join(instancesDir, id), record: "none" }))];
  for (let next = 0; next < found.length; next += recoversAtOnceMax) {
    await Promise.all(
      found.slice(next, next + recoversAtOnceMax).map((one) =>
        recoverOne(one, options).catch((error: unknown) => {
          log.error({ instance: one.id, err: error }, "instance could not be adopted; it is left alone");
          options.manager.leaveAlone(typeof one.record === "string" ? undefined : one.record.image.digest);
        }),
      ),
    );
  }
}

async function recoverOne({ id, dir, record }: FoundDir, options: RecoverOptions): Promise<void> {
  const { remover, log } = options;
  if (record === "unreadable") {
    // It may be somebody's sandbox: an operator decides, nothing is destroyed on a guess.
    log.error({ instance: id, dir }, "instance record unreadable; the instance is left alone");
    options.manager.leaveAlone(undefined);
    return;
  }
  if (record !== "none" && record.phase === "claimed") return adoptClaimed(record, dir, options);
  if (record !== "none" && record.phase === "warm" && (await adoptWarm(record, dir, options))) return;
  log.info({ instance: id, phase: record === "none" ? "none" : record.phase }, "unfinished instance removed");
  await remover.remove(id, dir);
}

async function adoptClaimed(record: InstanceRecord, dir: string, options: RecoverOptions): Promise<void> {
  const { driver, manager, log } = options;
  const { status, oomKills } = await driver.inspect(record.id);
  const state = status === "running" ? "awake" : status === "frozen" ? "asleep" : "dead";
  if (state === "dead") {
    const outOfMemory = oomKills > 0;
    const what = outOfMemory ? "The sandbox ran out of memory" : "The machine or the sandbox's init stopped";
    const message = `${what} while the platform did not run; it restarts with its files on the next request.`;
    addError(record, outOfMemory ? "OUT_OF_MEMORY" : "INSTANCE_LOST", message);
    writeRecord(dir, record);
  }
  await manager.adopt(record, dir, state);
  log.debug({ instance: record.id, state }, "instance adopted");
}

async function adoptWarm(
  record: InstanceRecord,
  dir: string,
  { driver, maker, pool }: RecoverOptions,
): Promise<boolean> {
  // A sandbox made now gets the init of now; one made earlier keeps the one it lives with.
  if (record.initDigest !== maker.initDigest) return false;
  const { status } = await driver.inspect(record.id);
  if (status !== "running" && status !== "frozen") return false;
  if (status === "frozen") driver.thaw(record.id);
  try {
    pool.put({ record, dir, guest: await maker.connect(record) });
    return true;
  } catch {
    return false;
  }
}
