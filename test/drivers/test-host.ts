// A driver on a data directory of its own with the machine's base image, and commands run in its instances through their init.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomToken } from "../../src/core/ids.ts";
import { createLogger } from "../../src/core/log.ts";
import type { Driver, InstanceHandle, InstanceLimits, InstanceSpec } from "../../src/host/drivers/driver.ts";
import { MockDriver, type MockFaults } from "../../src/host/drivers/mock.ts";
import { createOciDriver } from "../../src/host/drivers/oci/driver.ts";
import { daemonPaths, groupParent } from "../../src/host/drivers/oci/paths.ts";
import { openGuest } from "../../src/host/guest/guest.ts";
import { idRange } from "../../src/host/images/id-range.ts";
import { openImages } from "../../src/host/images/images.ts";
import type { NetworkSettings } from "../../src/host/network/settings.ts";
import type { GuestProcess, OutputStream, ProcessEnd } from "../../src/sandbox-api/machine.ts";
import { searchBinary } from "../search-binary.ts";
import { findLeftovers } from "./leftovers.ts";

export type CommandOutput = { end: ProcessEnd; stdout: string; stderr: string };

export type TestHostOptions = {
  kind: "mock" | "oci";
  faults?: MockFaults;
  network?: Partial<NetworkSettings>;
  /** A program in the runtime's place. */
  runtime?: string;
  /** A driver on what an earlier one made; that one owns the directory. */
  dataDir?: string;
  cgroupParent?: string;
};

const log = createLogger("silent");
const projectRoot = join(import.meta.dirname, "../..");
export const guestBinary = process.env.CATNAP_GUEST_BINARY ?? join(projectRoot, "guest/build/catnap-init");
export const ociRuntime = process.env.CATNAP_OCI_RUNTIME ?? "runc";
const commandTimeoutMs = 60_000;

export class TestHost implements AsyncDisposable {
  readonly driver: Driver;
  readonly dataDir: string;
  readonly cgroupParent: string;
  readonly imageRoot: string;
  readonly #teardown: () => Promise<void>;
  readonly #ownsDataDir: boolean;

  private constructor(options: TestHostOptions, imageRoot: string) {
    this.#ownsDataDir = options.dataDir === undefined;
    this.dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), "catnap-driver-"));
    this.cgroupParent = options.cgroupParent ?? `catnap-test-${randomToken(8)}`;
    this.imageRoot = imageRoot;
    const { dataDir, cgroupParent } = this;
    if (options.kind === "mock") {
      this.driver = new MockDriver({ dataDir, guestBinary, searchBinary, faults: options.faults });
      this.#teardown = async () => undefined;
      return;
    }
    const network = { cidr: "10.209.0.0/16", ...options.network };
    const oci = {
      dataDir,
      cgroupParent,
      runtime: options.runtime ?? ociRuntime,
      guestBinary,
      searchBinary,
      network,
      log,
    };
    const { driver, teardown } = createOciDriver({ ...oci, subIdStart: idRange.start });
    this.driver = driver;
    this.#teardown = teardown;
  }

  static async open(options: TestHostOptions): Promise<TestHost> {
    const host = new TestHost(options, options.kind === "mock" ? "/" : await findBaseImage());
    await host.driver.prepare();
    return host;
  }

  /** The cgroup above those of the sandboxes. */
  get group(): string {
    return groupParent(daemonPaths(this.dataDir), this.cgroupParent);
  }

  spec(limits: Partial<InstanceLimits> = {}, id = randomToken(12)): InstanceSpec {
    const defaults = { memoryMb: 512, cpuCores: 1, processesMax: 256 };
    const dir = join(this.dataDir, "instances", id);
    return { id, dir, imageRoot: this.imageRoot, hostname: "sandbox", limits: { ...defaults, ...limits } };
  }

  async create(limits: Partial<InstanceLimits> = {}): Promise<InstanceHandle & { spec: InstanceSpec }> {
    const spec = this.spec(limits);
    return { ...(await this.driver.create(spec, AbortSignal.timeout(commandTimeoutMs))), spec };
  }

  leftovers(expected: readonly string[] = []): Promise<string[]> {
    return findLeftovers({ dataDir: this.dataDir, cgroupParent: this.cgroupParent, expected });
  }

  async destroyAll(): Promise<void> {
    for (const id of await this.driver.listFound()) {
      await this.driver.destroy(id, join(this.dataDir, "instances", id));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.driver[Symbol.asyncDispose]();
    if (!this.#ownsDataDir) return;
    await this.destroyAll();
    await this.#teardown();
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}

/** Runs a program inside and resolves with its output and its end. */
export async function runInside(
  { guestSocketPath }: InstanceHandle,
  argv: readonly string[],
  environment: Record<string, string> = {},
): Promise<CommandOutput> {
  const token = randomToken(12);
  const output = { stdout: "", stderr: "" };
  const ended = Promise.withResolvers<ProcessEnd>();
  const sink = {
    async output(of: string, stream: OutputStream, offset: number, chunk: Buffer) {
      if (of === token) output[stream] = output[stream].slice(0, offset) + chunk.toString();
    },
    async exit(of: string, end: ProcessEnd) {
      if (of === token) ended.resolve(end);
    },
  };
  const onLost = (reason: string): void => ended.reject(new Error(`the instance was lost: ${reason}`));
  await using guest = await openGuest({ socketPath: guestSocketPath, log, onLost });
  await guest.attach({ sink, onConnected: async (_: readonly GuestProcess[]) => undefined });
  await guest.spawn({
    token,
    argv,
    workingDir: "/",
    environment: {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      HOME: "/root",
      ...environment,
    },
  });
  const timer = setTimeout(() => ended.reject(new Error(`${argv[0]} did not end in time`)), commandTimeoutMs);
  try {
    return { end: await ended.promise, ...output };
  } finally {
    clearTimeout(timer);
  }
}

/** Runs a shell script inside that must succeed, and resolves with what it wrote, without the last line's end. */
export async function shell(instance: InstanceHandle, script: string): Promise<string> {
  const { end, stdout, stderr } = await runInside(instance, ["/bin/sh", "-ec", script]);
  if ("code" in end && end.code === 0) return stdout.trimEnd();
  throw new Error(`${script}: ${JSON.stringify(end)}: ${stderr}`);
}

/** To a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function findBaseImage(): Promise<string> {
  const imageDir = process.env.CATNAP_IMAGE_DIR ?? join(process.env.CATNAP_DATA_DIR ?? "/var/lib/catnap", "images");
  await using images = await openImages({
    imageDir,
    log,
    insecureRegistries: [],
    idRangeStart: idRange.start,
    maxImageBytes: 1,
  });
  const image = images.find("blaxel/base-image:latest");
  if (image === undefined) throw new Error("The base image is missing: run `npm run setup`.");
  return image.rootDir;
}
