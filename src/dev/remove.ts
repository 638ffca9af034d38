// Removes every instance of a data directory from the machine: for throw-away platforms of tests and benchmarks.
import { join } from "node:path";
import type { Logger } from "../core/log.ts";
import { readHostConfig } from "../host/config.ts";
import { readRecords } from "../host/instances/record.ts";
import { defaultDriver } from "./driver.ts";
import { lockDataDir } from "./lock.ts";
import { projectRoot } from "./project.ts";

/** Destroys sandboxes and warm instances with all their files. Throws `conflict` while a platform runs on the directory. */
export async function removeInstances(env: Readonly<Record<string, string | undefined>>, log: Logger): Promise<void> {
  const config = readHostConfig(env, projectRoot);
  await using _lock = await lockDataDir(config.dataDir);
  const { driver, teardown } = defaultDriver(config, log);
  await using _driver = driver;
  const instancesDir = join(config.dataDir, "instances");
  const ids = new Set([...(await driver.listFound()), ...readRecords(instancesDir).map(({ id }) => id)]);
  for (const id of ids) await driver.destroy(id, join(instancesDir, id));
  await teardown();
}
