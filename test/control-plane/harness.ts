// Starts a control plane on a database of its own behind a real HTTP server; it can be opened again on the same files.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pino } from "pino";
import type { Sandbox } from "../../src/contract/sandbox.ts";
import { type ControlPlaneConfig, readControlPlaneConfig } from "../../src/control-plane/config.ts";
import { type ControlPlane, openControlPlane } from "../../src/control-plane/context.ts";
import type { VolumeTemplateConfig } from "../../src/control-plane/volume-templates/config.ts";
import { databaseUrlFor, dropDatabaseFor, queryDatabase, readAllRows } from "./databases.ts";
import { createFakeHost, type FakeHost } from "./fake-host.ts";
import { LeakWatch } from "./leaks.ts";

export type Answer = {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
  body: any;
};

export type CallOptions = { body?: unknown; headers?: Record<string, string>; key?: string | null; rawBody?: string };

export type Server = AsyncDisposable & {
  url: string;
  apiKey: string;
  host: FakeHost;
  controlPlane: ControlPlane;
  config: ControlPlaneConfig;
  dataDir: string;
  /** Every line logged so far, at the level `debug` and without redaction. */
  logged: () => string;
  /** Everything that is stored, in files and in the database. */
  stored(): Promise<Buffer>;
  /** Asks the database behind the platform's back, with `?` for values, in SQL that SQLite and PostgreSQL share. */
  query<Row = Record<string, unknown>>(text: string, ...values: (string | number | null)[]): Promise<Row[]>;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** As the operator of the machine, who has no credential. */
  operate(method: string, path: string, options?: CallOptions): Promise<Answer>;
  create(input?: { name?: string; spec?: object; metadata?: object }, options?: CallOptions): Promise<Answer>;
};

export type ServerOptions = {
  /** Of an earlier server, to open its files again. Its owner removes it. */
  dataDir?: string;
  apiKey?: string;
  host?: FakeHost;
  settings?: Record<string, string>;
  config?: Partial<ControlPlaneConfig>;
  volumeTemplates?: Partial<VolumeTemplateConfig>;
};

/** Tests ask faster than anybody else does. */
const generous = { CATNAP_REQUESTS_PER_SECOND: "1000000", CATNAP_REJECTIONS_PER_MINUTE: "60000000" };

export async function startServer(options: ServerOptions = {}): Promise<Server> {
  await using opened = new AsyncDisposableStack();
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), "catnap-control-plane-"));
  if (options.dataDir === undefined) opened.defer(() => rmSync(dataDir, { recursive: true, force: true }));
  const databaseUrl = await databaseUrlFor(dataDir);
  if (options.dataDir === undefined) opened.defer(() => dropDatabaseFor(dataDir));
  const host = options.host ?? createFakeHost();
  const lines: string[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => lines.push(line) });
  const url = await listen(opened, (request, response) => controlPlane.app.routing(request, response));
  const operatorUrl = await listen(opened, (request, response) => controlPlane.operatorApp.routing(request, response));
  const settings = { ...generous, ...options.settings };
  const read = readControlPlaneConfig(settings, { dataDir, origin: url, pathPrefix: "/run" });
  const volumeTemplates = { ...read.volumeTemplates, ...options.volumeTemplates };
  const config = { ...read, databaseUrl, volumeTemplates, ...options.config };
  const controlPlane = opened.use(await openControlPlane({ config, host, log, sharesDatabase: true }));
  await controlPlane.reconcile();
  const apiKey = options.apiKey ?? controlPlane.bootstrap.apiKey ?? assert.fail("no API key");
  const leaks = new LeakWatch();
  const sendTo = async (origin: string, method: string, path: string, given: CallOptions): Promise<Answer> => {
    const answer = await send(`${origin}${path}`, method, apiKey, given);
    leaks.saw(method, path, given, answer);
    return answer;
  };
  const call = (method: string, path: string, given: CallOptions = {}): Promise<Answer> =>
    sendTo(url, method, path, given);
  const logged = (): string => lines.join("");
  const stored = async (): Promise<Buffer> =>
    Buffer.concat([readAllFiles(dataDir), Buffer.from(await readAllRows(config))]);
  const stack = opened.move();
  return {
    url,
    apiKey,
    host,
    controlPlane,
    config,
    dataDir,
    logged,
    stored,
    query: (text, ...values) => queryDatabase(config, text, values),
    call,
    operate: (method, path, given = {}) => sendTo(operatorUrl, method, path, { key: null, ...given }),
    create: ({ name, spec = {}, metadata = {} } = {}, given = {}) =>
      call("POST", "/v0/sandboxes", { body: { metadata: { ...(name && { name }), ...metadata }, spec }, ...given }),
    async [Symbol.asyncDispose]() {
      try {
        leaks.check({ stored: await stored(), logged: logged() });
      } finally {
        await stack.disposeAsync();
      }
    },
  };
}

async function listen(opened: AsyncDisposableStack, handle: RequestListener): Promise<string> {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  opened.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function send(url: string, method: string, apiKey: string, options: CallOptions): Promise<Answer> {
  const { body, rawBody, headers = {}, key = apiKey } = options;
  const response = await fetch(url, {
    method,
    headers: {
      ...(key !== null && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...((body !== undefined || rawBody !== undefined) && { body: rawBody ?? JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined };
}

/** Polls until the condition gives a value; fails after a minute, far more than a slow machine needs. */
export async function until<Value>(
  what: string,
  condition: () => Promise<Value | undefined> | Value | undefined,
): Promise<Value> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > deadline) assert.fail(`still not so after a minute: ${what}`);
    await delay(10);
  }
}

/** Resolves when the sandbox's record says so. */
export function untilStatus({ call }: Server, name: string, status: Sandbox["status"]): Promise<Answer> {
  return until(`${name} is ${status}`, async () => {
    const answer = await call("GET", `/v0/sandboxes/${name}`);
    return answer.body.status === status ? answer : undefined;
  });
}

/** Every byte below a directory, as one buffer. */
export function readAllFiles(dir: string): Buffer {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Buffer.concat(files.map((file) => readFileSync(join(file.parentPath, file.name))));
}
