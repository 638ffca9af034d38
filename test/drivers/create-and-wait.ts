// A daemon for tests: begins to make or restart an instance as told by its argument, says so, and stays until it is killed.
import type { InstanceSpec } from "../../src/host/drivers/driver.ts";
import { TestHost } from "./test-host.ts";

const task = JSON.parse(process.argv[2]!) as {
  dataDir: string;
  cgroupParent: string;
  spec: InstanceSpec;
  verb: "create" | "restart";
};
const host = await TestHost.open({ kind: "oci", dataDir: task.dataDir, cgroupParent: task.cgroupParent });
const making = host.driver[task.verb](task.spec, AbortSignal.timeout(60_000));
process.stdout.write("begun\n");
await making;
setInterval(() => undefined, 60_000);
