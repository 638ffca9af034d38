// Monitors of ports that last: over daemons, over callbacks that hang or lie, over processes whose number another gets, and one round of looks at a time.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import type { Guest, Machine, SocketInfo } from "../../src/sandbox-api/machine.ts";
import { monitorsMax, PortMonitors } from "../../src/sandbox-api/network/port-monitors.ts";
import { type Certificate, makeCertificate } from "../edge/certificate.ts";
import { eventually } from "../eventually.ts";
import { log, stateKey, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

/** Listens on a port for each file that is there, as long as it is; not for the one a file is written to before it has its name. */
const listener = `
import os, socket, sys, time
open_sockets = {}
while True:
    wanted = {name for name in os.listdir(sys.argv[1]) if not name.startswith(".")}
    for name in wanted - set(open_sockets):
        s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); open_sockets[name] = s; print(s.getsockname()[1], flush=True)
    for name in set(open_sockets) - wanted: open_sockets.pop(name).close()
    time.sleep(0.001)
`;
let runs = 0;

async function startListener() {
  const name = `lasting-${runs++}`;
  await sandbox.ask("PUT", "/filesystem/lasting.py", { json: { content: listener } });
  await sandbox.ask("PUT", `/filesystem/${name}/first`, { json: { content: "" } });
  const directory = `${sandbox.workingDir}/${name}`;
  const command = `exec python3 ${sandbox.workingDir}/lasting.py ${directory}`;
  const { pid } = (await sandbox.ask("POST", "/process", { json: { name, command } })).json as { pid: string };
  const ports = async (count: number): Promise<number[]> =>
    eventually(async () => {
      const { logs } = (await sandbox.ask("GET", `/process/${name}`)).json as { logs: string };
      const found = (logs.match(/\d+/g) ?? []).map(Number);
      assert.equal(found.length, count);
      return found;
    });
  await ports(1);
  const path = `/network/process/${pid}/monitor`;
  return {
    pid: Number(pid),
    ports,
    path,
    listen: (file: string) => sandbox.ask("PUT", `/filesystem/${name}/${file}`, { json: { content: "" } }),
    monitor: async (callback: string) => {
      const { status, text } = await sandbox.ask("POST", path, { json: { callback } });
      assert.equal(status, 200, text);
    },
    end: () => sandbox.ask("DELETE", `/process/${name}/kill`),
  };
}

async function listen(server: Server, host = "127.0.0.1"): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return (server.address() as AddressInfo).port;
}

type Told = { pid: number; port: number };

async function startCallback(answer?: (request: IncomingMessage) => number | undefined, host?: string) {
  const told: Told[] = [];
  const server = createServer(async (request, response) => {
    told.push(JSON.parse(String(Buffer.concat(await request.toArray()))));
    const status = answer === undefined ? 204 : answer(request);
    if (status !== undefined) response.writeHead(status, { location: "/elsewhere" }).end();
  });
  const port = await listen(server, host);
  return {
    told,
    port,
    url: `http://${host ?? "127.0.0.1"}:${port}/?token=very-secret`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const file = (): string => join(sandbox.stateDir, "port-monitors");

test("a monitor goes on with the next daemon, tells nothing twice, and its file reveals nothing", async () => {
  await using callback = await startCallback();
  const process = await startListener();
  await process.monitor(callback.url);
  await eventually(() => assert.equal(callback.told.length, 1));
  await eventually(() => {
    const { monitors } = JSON.parse(stateKey.open(readFileSync(file(), "utf8"), "port-monitors"));
    assert.deepEqual(monitors[0].told, [callback.told[0]!.port]);
  });
  assert.equal(statSync(file()).mode & 0o777, 0o600);
  assert.ok(!/secret|127\.0\.0\.1/.test(readFileSync(file(), "utf8")));
  await sandbox.restart();
  await process.listen("second");
  const ports = await process.ports(2);
  await eventually(() => assert.equal(callback.told.length, 2));
  assert.deepEqual(
    callback.told,
    ports.map((port) => ({ pid: process.pid, port })),
  );
  assert.equal((await sandbox.ask("DELETE", process.path)).status, 200);
  assert.ok(!existsSync(file()));
  await sandbox.restart();
  assert.equal((await sandbox.ask("DELETE", process.path)).status, 422);
  await process.end();
});

test("a monitor does not outlive the machine its process ran in, nor a process whose number another has", async () => {
  await using callback = await startCallback();
  const process = await startListener();
  await process.monitor(callback.url);
  await eventually(() => assert.equal(callback.told.length, 1));
  await sandbox.close();
  sandbox.startCount += 1;
  await sandbox.open();
  assert.equal((await sandbox.ask("DELETE", process.path)).status, 422);
  // As if another process had been given the number while no daemon ran.
  const other = await startListener();
  const monitors = [{ pid: other.pid, began: "1", url: callback.url, told: [] }];
  await sandbox.close();
  const { startCount } = sandbox;
  writeFileSync(file(), stateKey.seal(JSON.stringify({ startCount, monitors }), "port-monitors"));
  await sandbox.open();
  await eventually(() => assert.ok(!existsSync(file())));
  assert.equal((await sandbox.ask("DELETE", other.path)).status, 422);
  assert.equal(callback.told.length, 1);
  await other.end();
});

test("a file that makes no sense is left out, and monitoring works", async () => {
  const sealed = (value: unknown): string => stateKey.seal(JSON.stringify(value), "port-monitors");
  const monitor = { pid: 1, began: "1", url: "http://localhost/", told: [] };
  const contents = [
    "",
    "garbage",
    stateKey.seal("[]", "another"),
    sealed({}),
    sealed({ startCount: sandbox.startCount, monitors: [{ ...monitor, url: "file:///" }] }),
    sealed({ startCount: sandbox.startCount, monitors: Array(65).fill(monitor) }),
  ];
  for (const content of contents) {
    await sandbox.close();
    writeFileSync(file(), content);
    await sandbox.open();
    assert.equal((await sandbox.ask("GET", "/process")).status, 200);
  }
  await using callback = await startCallback();
  const process = await startListener();
  await process.monitor(callback.url);
  await eventually(() => assert.equal(callback.told.length, 1));
  await sandbox.ask("DELETE", process.path);
  await process.end();
});

test("a callback that never answers delays no other monitor, and a redirection is a refusal", async () => {
  await using silent = await startCallback(() => undefined);
  await using moved = await startCallback(() => 307);
  await using fine = await startCallback(undefined, "127.0.0.2");
  const processes = [await startListener(), await startListener(), await startListener()];
  await processes[0]!.monitor(silent.url);
  await processes[1]!.monitor(moved.url);
  await eventually(() => assert.equal(silent.told.length, 1));
  await processes[2]!.monitor(fine.url);
  await eventually(() => assert.equal(fine.told.length, 1));
  assert.equal(silent.told.length, 1, "it is waited for meanwhile");
  await eventually(() => assert.equal(moved.told.length, 3));
  for (const { path, end } of processes) {
    await sandbox.ask("DELETE", path);
    await end();
  }
});

test("ports that come and go a thousand times a second are told now and then, so many a second at most", async () => {
  await using callback = await startCallback();
  const script = `
import collections, socket, time
kept = collections.deque()
while True:
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); kept.append(s)
    if len(kept) > 200: kept.popleft().close()
    time.sleep(0.001)`;
  await sandbox.ask("PUT", "/filesystem/flapping.py", { json: { content: script } });
  const command = `exec python3 ${sandbox.workingDir}/flapping.py`;
  const { pid } = (await sandbox.ask("POST", "/process", { json: { name: "flapping", command } })).json as {
    pid: string;
  };
  const path = `/network/process/${pid}/monitor`;
  assert.equal((await sandbox.ask("POST", path, { json: { callback: callback.url } })).status, 200);
  const beganMs = performance.now();
  await eventually(() => assert.ok(callback.told.length >= 150));
  assert.ok(callback.told.length <= 64 * (2 + (performance.now() - beganMs) / 1_000), `${callback.told.length} calls`);
  await sandbox.ask("DELETE", "/process/flapping/kill");
  await eventually(async () => assert.equal((await sandbox.ask("DELETE", path)).status, 422));
});

test("monitors of processes that end at that moment are let go of, as often as they come", async () => {
  await using callback = await startCallback(() => 500);
  for (let round = 0; round < 3; round++) {
    const name = `dying-${round}`;
    const command = `for i in $(seq ${monitorsMax}); do sleep 0.$((RANDOM % 9 + 1)) & echo $!; done; wait`;
    await sandbox.ask("POST", "/process", { json: { name, command: `exec bash -c '${command}'` } });
    const pids = await eventually(async () => {
      const { logs } = (await sandbox.ask("GET", `/process/${name}`)).json as { logs: string };
      const found = logs.match(/\d+/g) ?? [];
      assert.equal(found.length, monitorsMax);
      return found;
    });
    for (const pid of pids) {
      const { status } = await sandbox.ask("POST", `/network/process/${pid}/monitor`, {
        json: { callback: callback.url },
      });
      assert.ok(status === 200 || status === 422);
    }
    await eventually(() => assert.ok(!existsSync(file())));
  }
  assert.equal((await sandbox.ask("GET", "/process")).status, 200);
});

async function startSecure({ key, cert }: Certificate) {
  const told: Told[] = [];
  let connections = 0;
  const onRequest: RequestListener = async (request, response) => {
    told.push(JSON.parse(String(Buffer.concat(await request.toArray()))));
    response.end();
  };
  const server = createSecureServer({ key, cert }, onRequest);
  server.on("connection", () => {
    connections += 1;
  });
  const port = await listen(server, "0.0.0.0");
  return {
    told,
    port,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("https is asked with the checks of every client: who issued the certificate, and for which name", async () => {
  const known = makeCertificate();
  const trusted = getCACertificates("default");
  await using mine = await startSecure(known);
  await using strange = await startSecure(makeCertificate({ name: "stranger" }));
  await using plain = await startCallback();
  const process = await startListener();
  try {
    setDefaultCACertificates([...trusted, known.cert]);
    await process.monitor(`https://127.0.0.1:${mine.port}/`);
    await eventually(() => assert.equal(mine.told.length, 1));
    await process.monitor(`https://localhost:${mine.port}/`);
    await eventually(() => assert.equal(mine.told.length, 2));
    for (const [server, host] of [
      [mine, "127.0.0.2"],
      [strange, "127.0.0.1"],
    ] as const) {
      const before = server.connections();
      await process.monitor(`https://${host}:${server.port}/`);
      await eventually(() => assert.equal(server.connections(), before + 3));
    }
    assert.deepEqual([mine.told.length, strange.told.length], [2, 0]);
    await process.monitor(`https://127.0.0.1:${plain.port}/`);
    await process.monitor(plain.url);
    await eventually(() => assert.equal(plain.told.length, 1));
  } finally {
    setDefaultCACertificates(trusted);
    await process.end();
  }
});

/** A machine whose sockets are listed when the test says so. */
function fakeMachine() {
  const stateDir = mkdtempSync(join(tmpdir(), "port-monitors-"));
  const asked: ((sockets: SocketInfo[]) => void)[] = [];
  const guest = { sockets: () => new Promise<SocketInfo[]>((resolve) => asked.push(resolve)) } as unknown as Guest;
  const machine = { stateDir, stateKey, startCount: 0, isAsleep: false, guest } as Machine & { isAsleep: boolean };
  return { machine, asked, [Symbol.dispose]: () => rmSync(stateDir, { recursive: true, force: true }) };
}

const request = { pid: 1, began: "1", url: "http://localhost:1/" };
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("monitors that come while a look waits for a lost guest do not begin a second round", async (t) => {
  using fake = fakeMachine();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const end = new AbortController();
  using monitors = new PortMonitors(fake.machine, log, end.signal);
  monitors.start(request);
  t.mock.timers.tick(1);
  assert.equal(fake.asked.length, 1);
  for (let round = 0; round < 5; round++) {
    monitors.guestLost();
    monitors.start(request);
    t.mock.timers.tick(10_000);
  }
  assert.equal(fake.asked.length, 1);
  fake.asked[0]!([]);
  await settled();
  t.mock.timers.tick(1_000);
  assert.equal(fake.asked.length, 2);
  end.abort();
});

test("a sandbox that sleeps is not asked, and is asked again when it is awake", async (t) => {
  using fake = fakeMachine();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const end = new AbortController();
  using monitors = new PortMonitors(fake.machine, log, end.signal);
  (fake.machine as { isAsleep: boolean }).isAsleep = true;
  monitors.start(request);
  for (let second = 0; second < 10; second++) {
    t.mock.timers.tick(1_000);
    await settled();
  }
  assert.equal(fake.asked.length, 0);
  (fake.machine as { isAsleep: boolean }).isAsleep = false;
  t.mock.timers.tick(1_000);
  assert.equal(fake.asked.length, 1);
  end.abort();
});
