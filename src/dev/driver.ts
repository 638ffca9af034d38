// The driver a platform uses unless told otherwise, set up from the host's settings.
import type { Logger } from "../core/log.ts";
import type { HostConfig } from "../host/config.ts";
import type { Driver } from "../host/drivers/driver.ts";
import { createOciDriver } from "../host/drivers/oci/driver.ts";
import { idRange } from "../host/images/id-range.ts";

export function defaultDriver(config: HostConfig, log: Logger): { driver: Driver; teardown(): Promise<void> } {
  return createOciDriver({
    dataDir: config.dataDir,
    runtime: config.ociRuntime,
    guestBinary: config.guestBinary,
    searchBinary: config.searchBinary,
    subIdStart: idRange.start,
    cgroupParent: config.cgroupParent,
    network: { cidr: config.networkCidr },
    log,
  });
}
