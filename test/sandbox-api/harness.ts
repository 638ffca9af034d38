// A sandbox API over HTTP for tests: the real guest as a plain process, its files in a scratch directory of this machine.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
  type Server,
  request as sendRequest,
} from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { createLogger } from "../../src/core/log.ts";
import { SealKey } from "../../src/core/seal.ts";
import { type GuestConnection, openGuest } from "../../src/host/guest/guest.ts";
import { createSandboxApi } from "../../src/sandbox-api/app.ts";
import type { Machine } from "../../src/sandbox-api/machine.ts";
import type { SandboxApi, SandboxSession } from "../../src/sandbox-api/session.ts";
import type { InitSource } from "../../src/sandbox-api/upgrade/init-source.ts";
import { startGuest } from "../guest/start-guest.ts";
import { searchBinary } from "../search-binary.ts";
import { shippedInit } from "../shipped-init.ts";

export type Answer = { status: number; headers: IncomingHttpHeaders; body: Buffer; text: string; json: unknown };
export type Ask = { headers?: Record<string, string>; body?: Buffer | string | Readable; json?: unknown };

/** Of every test sandbox, in whatever program it runs. */
export const stateKey = new SealKey(Buffer.alloc(32, 7));
export const log = createLogger("silent");

/** Of a sandbox that is served by one program after another. */
export type ServeOptions = { startCount?: number; multipartTtlMs?: number };

/** The guest a sandbox is served from; disposing ends it, where it is the sandbox's own. */
type GuestSource = AsyncDisposable & { open(): Promise<GuestConnection>; pid?: number };

export class TestSandbox implements AsyncDisposable {
  readonly directory: string;
  readonly stateDir: string;
  readonly workingDir: string;
  readonly homeDir: string;
  /** Where parts of uploads lie: not the place in `/tmp`, which the sandboxes of all tests would share. */
  readonly multipartRoot: string;
  awakeCount = 0;
  touches = 0;
  upgradeCount = 0;
  initDigest = "";
  upgradePatienceMs: number | undefined;
  inits: InitSource = shippedInit();
  /** Raised by a test that plays another start of the machine. */
  startCount = 0;
  readonly #multipartTtlMs: number | undefined;
  readonly #guest: GuestSource;
  readonly #server: Server;
  #api: SandboxApi | undefined;
  #session: SandboxSession | undefined;
  #connection: GuestConnection | undefined;

  private constructor(directory: string, guest: GuestSource, { startCount = 0, multipartTtlMs }: ServeOptions) {
    this.directory = directory;
    this.startCount = startCount;
    this.#multipartTtlMs = multipartTtlMs;
    this.stateDir = join(directory, "state");
    this.workingDir = join(directory, "work");
    this.homeDir = join(directory, "home");
    this.multipartRoot = join(directory, "multipart-uploads");
    for (const path of [this.stateDir, this.workingDir, this.homeDir]) mkdirSync(path, { recursive: true });
    this.#guest = guest;
    this.#server = createServer((request, response) => {
      if (this.#session === undefined) return void response.writeHead(503).end();
      this.#session.handle(request, response);
    });
    this.#server.on("upgrade", (request, socket, head) => this.#session!.upgrade(request, socket, head));
  }

  static async start(): Promise<TestSandbox> {
    const directory = mkdtempSync(join(tmpdir(), "sandbox-api-"));
    const guest = await startGuest();
    return TestSandbox.#serve(directory, {
      pid: guest.pid,
      open: () => guest.open(),
      async [Symbol.asyncDispose]() {
        await guest[Symbol.asyncDispose]();
        rmSync(directory, { recursive: true, force: true });
      },
    });
  }

  /** Serves what another program may have served before: the directory and the guest belong to the caller. */
  static serve(directory: string, socketPath: string, options: ServeOptions = {}): Promise<TestSandbox> {
    const onLost = (reason: string): never => {
      throw new Error(`the guest was lost: ${reason}`);
    };
    const open = (): Promise<GuestConnection> => openGuest({ socketPath, log, onLost });
    return TestSandbox.#serve(directory, { open, [Symbol.asyncDispose]: async () => undefined }, options);
  }

  static async #serve(directory: string, guest: GuestSource, options: ServeOptions = {}): Promise<TestSandbox> {
    const sandbox = new TestSandbox(directory, guest, options);
    await new Promise<void>((resolve) => sandbox.#server.listen(0, "127.0.0.1", resolve));
    await sandbox.open();
    return sandbox;
  }

  /** Of its own guest. */
  get guestPid(): number {
    return this.#guest.pid!;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get session(): SandboxSession {
    return this.#session!;
  }

  /** A daemon comes up: a new API on the same state directory and the same guest. */
  async open(): Promise<void> {
    this.#api = createSandboxApi({
      log,
      version: "1.2.3",
      commit: "c0ffee",
      startedAt: new Date(),
      inits: this.inits,
      upgradePatienceMs: this.upgradePatienceMs,
      multipartTtlMs: this.#multipartTtlMs,
      multipartRoot: this.multipartRoot,
    });
    const connection = await this.#guest.open();
    const machine: Machine = {
      instanceId: "test",
      workspace: "main",
      sandboxName: "test",
      stateDir: this.stateDir,
      environment: { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: this.homeDir, FROM_MACHINE: "yes" },
      workingDir: this.workingDir,
      homeDir: this.homeDir,
      searchProgram: searchBinary,
      guest: connection,
      upgradeCount: 0,
      initDigest: this.initDigest,
      stateKey,
      startCount: this.startCount,
      upgrade: async (binary) => {
        const upgraded = await connection.upgrade(binary);
        this.upgradeCount += 1;
        return upgraded;
      },
      isAsleep: false,
      touch: () => {
        this.touches += 1;
      },
      holdAwake: () => {
        this.awakeCount += 1;
        return {
          [Symbol.dispose]: () => {
            this.awakeCount -= 1;
          },
        };
      },
    };
    const session = await this.#api.open(machine);
    this.#session = session;
    this.#connection = connection;
    const { sink } = session;
    await connection.attach({ sink, onConnected: (processes) => session.guestConnected(processes) });
  }

  /** The daemon goes: first its connection to the guest, as when it is killed, then its memory. */
  async close(): Promise<void> {
    await this.#connection?.[Symbol.asyncDispose]();
    this.#connection = undefined;
    const api = this.#api;
    this.#session = undefined;
    this.#api = undefined;
    await api?.[Symbol.asyncDispose]();
  }

  async restart(): Promise<void> {
    await this.close();
    await this.open();
  }

  /** Sends the path byte for byte. */
  async ask(method: string, path: string, { headers = {}, body, json }: Ask = {}): Promise<Answer> {
    const content = json === undefined ? body : JSON.stringify(json);
    const sent = { ...(json === undefined ? {} : { "content-type": "application/json" }), ...headers };
    const response = await this.send({ method, path, headers: sent }, content);
    const bytes = await buffer(response);
    const text = bytes.toString();
    const isJson = response.headers["content-type"]?.startsWith("application/json") === true && text !== "";
    return {
      status: response.statusCode!,
      headers: response.headers,
      body: bytes,
      text,
      json: isJson ? (JSON.parse(text) as unknown) : undefined,
    };
  }

  /** Resolves with the head of the answer; its body is read by the caller. */
  async send(options: RequestOptions, body?: Buffer | string | Readable): Promise<IncomingMessage> {
    const request = sendRequest({ host: "127.0.0.1", port: this.port, agent: false, ...options });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve);
      request.once("error", reject);
    });
    if (body === undefined || typeof body === "string" || Buffer.isBuffer(body)) request.end(body);
    // A server that answers early may close before it has read everything.
    else pipeline(body, request).catch(() => undefined);
    return answered;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#guest[Symbol.asyncDispose]();
  }
}
