// The network of this daemon's sandboxes: the machine's packet filter, and a device, an address and a route per sandbox.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { AppError } from "../../core/errors.ts";
import { type AddressRange, chooseAddress, parseRange } from "./addresses.ts";
import { deviceName, hostBatch, idOfAlias, sandboxBatch } from "./devices.ts";
import { findResolvers } from "./resolvers.ts";
import { readRoutes } from "./routes.ts";
import { rulesText } from "./rules.ts";
import { defaultConnectionsMax, type NetworkSettings } from "./settings.ts";

/** Runs a program of the machine on behalf of an instance, or of the daemon itself. */
export type RunProgram = (
  program: string,
  args: readonly string[],
  options: { id?: string; input?: string; signal?: AbortSignal },
) => Promise<unknown>;

export type SandboxNetworkOptions = {
  /** `[a-z0-9]{8}`, different for each data directory of a machine. */
  tag: string;
  settings: NetworkSettings;
  run: RunProgram;
};

const forwardingFile = "/proc/sys/net/ipv4/ip_forward";
const addressAttempts = 5;
/** Devices vanish by themselves shortly after the last process of their namespace; only then it is worth removing them by hand. */
const vanishTimeoutMs = 200;

export class SandboxNetwork {
  readonly resolvers: readonly string[];
  readonly devicePrefix: string;
  readonly table: string;
  readonly #settings: NetworkSettings;
  readonly #range: AddressRange;
  readonly #run: RunProgram;
  /** Addresses given away whose routes are not there yet. */
  readonly #reserved = new Set<string>();

  constructor({ tag, settings, run }: SandboxNetworkOptions) {
    this.devicePrefix = `cn${tag.slice(0, 4)}`;
    this.table = `catnap_${tag}`;
    this.#settings = settings;
    this.#range = parseRange(settings.cidr);
    this.#run = run;
    this.resolvers = settings.resolvers ?? findResolvers();
  }

  /** Makes the machine forward and filters what it forwards; safe to repeat, also under running sandboxes. */
  async prepare(): Promise<void> {
    const { cidr, connectionsMax = defaultConnectionsMax } = this.#settings;
    const { table, devicePrefix, resolvers } = this;
    await this.#run("nft", ["-f", "-"], { input: rulesText({ table, devicePrefix, cidr, resolvers, connectionsMax }) });
    if (readFileSync(forwardingFile, "utf8").trim() !== "1") writeFileSync(forwardingFile, "1");
  }

  /** Gives the namespace of `pid` its device and address. A device of that instance that is there already is replaced. */
  async attach(id: string, pid: number, signal: AbortSignal): Promise<void> {
    const device = deviceName(this.devicePrefix, id);
    await this.detach(id);
    for (let attempt = 1; ; attempt++) {
      const address = this.#reserve(id);
      const options = { id, device, address, range: this.#range, mtu: this.#mtu(), pid };
      try {
        await this.#run("ip", ["-batch", "-"], { id, input: hostBatch(options), signal });
        const enter = ["--target", String(pid), "--net", "ip", "-batch", "-"];
        return void (await this.#run("nsenter", enter, { id, input: sandboxBatch(options), signal }));
      } catch (error) {
        await this.detach(id);
        if (attempt >= addressAttempts || signal.aborted || !this.#isTaken(address)) throw error;
      } finally {
        this.#reserved.delete(address);
      }
    }
  }

  /** Removes the instance's device and with it the route; does nothing when there is none. */
  async detach(id: string): Promise<void> {
    await this.#removeDevice(deviceName(this.devicePrefix, id), id);
  }

  /** The same after the instance's processes were killed: its devices are about to go by themselves. */
  async detachDead(id: string): Promise<void> {
    const device = deviceName(this.devicePrefix, id);
    for (const deadline = performance.now() + vanishTimeoutMs; performance.now() < deadline; await delay(5)) {
      if (!deviceExists(device)) return;
    }
    await this.#removeDevice(device, id);
  }

  /** Ids of the instances whose devices are on the machine. */
  listIds(): string[] {
    const ids: string[] = [];
    for (const device of readdirSync("/sys/class/net")) {
      const id = device.startsWith(this.devicePrefix) ? idOfAlias(readAlias(device)) : undefined;
      if (id !== undefined) ids.push(id);
    }
    return ids;
  }

  /** Removes this daemon's packet filter: for after its last sandbox. Forwarding stays on, somebody else may rely on it by now. */
  async teardown(): Promise<void> {
    const { table } = this;
    await this.#run("nft", ["-f", "-"], { input: `table inet ${table}\ndelete table inet ${table}\n` });
  }

  #reserve(id: string): string {
    const taken = new Set(readRoutes().map((route) => route.destination));
    const address = chooseAddress(this.#range, id, (one) => taken.has(one) || this.#reserved.has(one));
    this.#reserved.add(address);
    return address;
  }

  #isTaken(address: string): boolean {
    return readRoutes().some((route) => route.destination === address);
  }

  /** That of the way out, so that a sandbox's packets need no splitting on it. */
  #mtu(): number {
    const wayOut = readRoutes().find((route) => route.prefixLength === 0);
    const mtu = wayOut === undefined ? Number.NaN : Number(readText(`/sys/class/net/${wayOut.device}/mtu`));
    return Number.isInteger(mtu) && mtu >= 576 ? Math.min(mtu, 9_000) : 1_500;
  }

  async #removeDevice(device: string, id: string): Promise<void> {
    if (!deviceExists(device)) return;
    try {
      await this.#run("ip", ["link", "delete", "dev", device], { id });
    } catch (error) {
      if (deviceExists(device)) {
        throw new AppError("internal", "The instance's network device could not be removed.", { cause: error });
      }
    }
  }
}

function deviceExists(device: string): boolean {
  return existsSync(`/sys/class/net/${device}`);
}

function readAlias(device: string): string {
  return readText(`/sys/class/net/${device}/ifalias`).trim();
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
