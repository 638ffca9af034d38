// A host on the mock driver behind the platform's own listener and edge: real guests as plain processes, faults on demand, times in milliseconds.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Directory, InstanceRequest, InstanceStatus } from "../../src/contract/host.ts";
import { AppError } from "../../src/core/errors.ts";
import { randomToken } from "../../src/core/ids.ts";
import { createLogger } from "../../src/core/log.ts";
import { SealKeys } from "../../src/core/seal-keys.ts";
import { listenerLimits, openListener } from "../../src/dev/listener.ts";
import { createEdge } from "../../src/edge/server.ts";
import type { HostConfig } from "../../src/host/config.ts";
import { openHost, type RunningHost } from "../../src/host/context.ts";
import type { MockFaults } from "../../src/host/drivers/mock.ts";
import { type InitProcess, killAll } from "../../src/host/drivers/mock-processes.ts";
import { openGuest } from "../../src/host/guest/guest.ts";
import type { Images, ResolvedImage } from "../../src/host/images/images.ts";
import { type InstanceRecord, readRecords } from "../../src/host/instances/record.ts";
import { createSandboxApi } from "../../src/sandbox-api/app.ts";
import { buildGuest } from "../guest/start-guest.ts";
import { searchBinary } from "../search-binary.ts";
import { shippedInit } from "../shipped-init.ts";
import { HookedDriver } from "./hooked-driver.ts";

export const apiKey = "test-key";
const image = "blaxel/base-image:latest";

export type HarnessOptions = {
  idleTimeoutMs?: number;
  warmInstances?: number;
  faults?: MockFaults;
  guestBinary?: string;
  removeRetryMs?: number;
  recheckIntervalMs?: number;
  lateBodyMs?: number;
  /** Of an earlier host, to adopt what it left. Its owner removes it. */
  dataDir?: string;
};

export class HostHarness implements AsyncDisposable {
  readonly dataDir: string;
  readonly driver: HookedDriver;
  /** Routes the edge knows: sandbox name to instance. */
  readonly routes = new Map<string, { instanceId: string; status: string; enabled: boolean }>();
  #host: RunningHost | undefined;
  #opened = new AsyncDisposableStack();
  #url = "";
  readonly #ownsDataDir: boolean;
  readonly #options: HarnessOptions;
  readonly #guestBinary: string;

  private constructor(options: HarnessOptions) {
    this.#options = options;
    this.#ownsDataDir = options.dataDir === undefined;
    this.dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), "catnap-host-"));
    this.#guestBinary = options.guestBinary ?? process.env.CATNAP_GUEST_BINARY ?? buildGuest("init");
    const { dataDir } = this;
    this.driver = new HookedDriver({ dataDir, guestBinary: this.#guestBinary, searchBinary, faults: options.faults });
  }

  static async start(options: HarnessOptions = {}): Promise<HostHarness> {
    const host = new HostHarness(options);
    await host.open();
    return host;
  }

  get host(): RunningHost {
    return this.#host!;
  }

  get url(): string {
    return this.#url;
  }

  get port(): number {
    return Number(new URL(this.#url).port);
  }

  /** A daemon comes up on what is in the data directory. */
  async open(): Promise<void> {
    const { dataDir, driver } = this;
    const { idleTimeoutMs = 60_000, warmInstances = 0, removeRetryMs, recheckIntervalMs } = this.#options;
    const { lateBodyMs = listenerLimits.lateBodyMs } = this.#options;
    const log = createLogger((process.env.CATNAP_LOG_LEVEL as "debug" | undefined) ?? "silent");
    const settings = { dataDir, idleTimeoutMs, warmInstances, warmImages: [image], processesMax: 64 };
    const config = { ...settings, guestBinary: this.#guestBinary } as HostConfig;
    await using opened = new AsyncDisposableStack();
    const listener = opened.use(await openListener("127.0.0.1:0", { ...listenerLimits, lateBodyMs }));
    const sandboxApi = opened.use(
      createSandboxApi({
        log,
        version: "1.2.3",
        commit: "c0ffee",
        startedAt: new Date(),
        inits: shippedInit(this.#guestBinary),
        // Its guests are plain processes, whose /tmp is this machine's.
        multipartRoot: join(dataDir, "multipart-uploads"),
      }),
    );
    const sealKey = new SealKeys({ path: join(dataDir, "seal.key") }).key;
    const host = opened.use(
      await openHost({
        config,
        driver,
        images: plainImages(dataDir),
        sandboxApi,
        openGuest,
        sealKey,
        log,
        removeRetryMs,
      }),
    );
    const directory: Directory = {
      authorize: (credential) => authenticate(credential),
      findRoute: (workspace, name) => (workspace === "main" ? this.routes.get(name) : undefined),
      findWorkspaceById: (id) => (id === "w1" ? "main" : undefined),
      findPreview: () => Promise.resolve(undefined),
      verifyPreviewToken: () => Promise.resolve(false),
      isPlatformCredential: () => false,
    };
    const edge = createEdge({
      directory,
      host,
      pathPrefix: "/run",
      sandboxDomain: "sandboxes.test",
      log,
      recheckIntervalMs,
    });
    listener.serve({
      controlPlane: (_, response) => void response.writeHead(501).end(),
      edge,
    });
    this.#host = host;
    this.#url = listener.origin;
    this.#opened = opened.move();
    // Callers first, as the platform does it.
    this.#opened.defer(() => listener[Symbol.asyncDispose]());
  }

  /** The daemon stops as it does on SIGTERM. */
  async close(): Promise<void> {
    await this.#opened.disposeAsync();
    this.#opened = new AsyncDisposableStack();
    this.#host = undefined;
  }

  async create(name: string, { signal = AbortSignal.timeout(60_000) } = {}): Promise<{ instanceId: string }> {
    const instanceId = randomToken(16);
    await this.host.createInstance(this.request(name, instanceId), { signal });
    this.routes.set(name, { instanceId, status: "DEPLOYED", enabled: true });
    return { instanceId };
  }

  request(name: string, instanceId: string): InstanceRequest {
    return { instanceId, workspace: "main", sandboxName: name, image, memoryMb: 512, environment: { NAME: name } };
  }

  status(name: string): InstanceStatus {
    return this.host.instanceStatus(this.routes.get(name)!.instanceId) ?? assert.fail(`${name} is not on the host`);
  }

  /** The record of the instance that serves a sandbox. */
  record(name: string): InstanceRecord {
    const records = this.records();
    return records.find(({ claim }) => claim?.sandboxName === name) ?? assert.fail(`${name} has no instance`);
  }

  records(): InstanceRecord[] {
    return readRecords(join(this.dataDir, "instances")).flatMap(({ record }) =>
      typeof record === "string" ? [] : [record],
    );
  }

  directories(): string[] {
    return readdirSync(join(this.dataDir, "instances"));
  }

  urlOf(name: string, path: string): string {
    return `${this.url}/run/main/sandboxes/${name}${path}`;
  }

  ask(name: string, method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    return fetch(this.urlOf(name, path), {
      method,
      signal,
      headers: { authorization: `Bearer ${apiKey}`, ...(body !== undefined && { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  }

  /** A request that must succeed, with its JSON. */
  async call(name: string, method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const response = await this.ask(name, method, path, body, AbortSignal.timeout(60_000));
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** Kills the init of an instance and everything below it, as the kernel ends a PID namespace with its init. */
  async kill(id: string): Promise<void> {
    const file = join(this.dataDir, "instances", id, "driver", "init.json");
    assert.ok(await killAll(JSON.parse(readFileSync(file, "utf8")) as InitProcess));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    this.driver.before.destroy = undefined;
    for (const id of await this.driver.listFound()) {
      await this.driver.destroy(id, join(this.dataDir, "instances", id));
    }
    if (this.#ownsDataDir) rmSync(this.dataDir, { recursive: true, force: true });
  }
}

function authenticate(credential: string) {
  if (credential !== apiKey) throw new AppError("unauthenticated", "unknown");
  return {
    id: "tester",
    kind: "service_account" as const,
    role: "admin" as const,
    workspace: "main",
    scopes: ["admin"],
  };
}

/** One image, which is this machine itself: the mock driver isolates nothing. */
function plainImages(dataDir: string): Images {
  const resolved: ResolvedImage = {
    name: image,
    digest: "0".repeat(64),
    rootDir: "/",
    environment: {},
    workingDir: dataDir,
    homeDir: dataDir,
  };
  return {
    find: (name) => (name === image ? resolved : undefined),
    resolve: async (name) => {
      if (name === image) return resolved;
      throw new AppError("invalid_request", "no such image", { details: { code: "INVALID_IMAGE" } });
    },
    list: () => [image],
    hold: () => ({ [Symbol.dispose]: () => undefined }),
    describe: () => undefined,
    describeAll: async () => [],
    remove: async () => "unknown",
    collect: async () => [],
    [Symbol.asyncDispose]: async () => undefined,
  };
}
