// Ports of processes: what they hold, who is told of new ones, and what is not offered.
import assert from "node:assert/strict";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { monitorsMax } from "../../src/sandbox-api/network/port-monitors.ts";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

/** Listens on one port, and on another as soon as a line comes. */
const listener = `
import socket, sys, time
def listen():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); return s
first = listen()
import os
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
second = listen()
time.sleep(1000)
`;

let runs = 0;

async function startListener(): Promise<{
  pid: number;
  name: string;
  ports(): Promise<number[]>;
  more(): Promise<void>;
}> {
  const name = `listener-${runs++}`;
  const flag = `${sandbox.workingDir}/${name}.flag`;
  await sandbox.ask("PUT", "/filesystem/listener.py", { json: { content: listener } });
  const started = await sandbox.ask("POST", "/process", {
    json: { name, command: `exec python3 ${sandbox.workingDir}/listener.py ${flag}` },
  });
  const { pid } = started.json as { pid: string };
  const ports = async (): Promise<number[]> => {
    const { logs } = (await sandbox.ask("GET", `/process/${name}`)).json as { logs: string };
    return (logs.match(/\d+/g) ?? []).map(Number);
  };
  await eventually(async () => assert.equal((await ports()).length, 1));
  const more = async (): Promise<void> => {
    await sandbox.ask("PUT", `/filesystem/${name}.flag`, { json: { content: "" } });
    await eventually(async () => assert.equal((await ports()).length, 2));
  };
  return { pid: Number(pid), name, ports, more };
}

/** A server "inside": the guest of these tests shares this machine's network. */
async function startCallback(answer: (response: ServerResponse) => void = (response) => void response.end()) {
  const told: { pid: number; port: number }[] = [];
  const server: Server = createServer(async (request, response) => {
    assert.deepEqual([request.method, request.url], ["POST", "/ports?for=me"]);
    told.push(JSON.parse(String(Buffer.concat(await request.toArray()))));
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    told,
    port: (server.address() as AddressInfo).port,
    url: `http://localhost:${(server.address() as AddressInfo).port}/ports?for=me`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("the sockets of a process are told", async () => {
  const { pid, name, ports } = await startListener();
  const answer = await sandbox.ask("GET", `/network/process/${pid}/ports`);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.json, {
    pid,
    ports: [
      {
        pid,
        protocol: "tcp",
        localAddr: "127.0.0.1",
        localPort: (await ports())[0],
        remoteAddr: "0.0.0.0",
        remotePort: 0,
        state: "LISTEN",
        processName: "python3",
      },
    ],
  });
  await sandbox.ask("DELETE", `/process/${name}/kill`);
});

test("a callback is told of every port once, of a new process' first as of later ones, until that is stopped", async () => {
  await using callback = await startCallback();
  const { pid, name, ports, more } = await startListener();
  const path = `/network/process/${pid}/monitor`;
  const started = await sandbox.ask("POST", path, { json: { callback: callback.url } });
  assert.deepEqual([started.status, started.json], [200, { pid, message: "Port monitoring started" }]);
  await eventually(() => assert.equal(callback.told.length, 1));
  await more();
  await eventually(() => assert.equal(callback.told.length, 2));
  assert.deepEqual(
    callback.told,
    (await ports()).map((port) => ({ pid, port })),
  );
  assert.equal(sandbox.touches, 0, "monitoring is nobody's use");
  const stopped = await sandbox.ask("DELETE", path);
  assert.deepEqual([stopped.status, stopped.json], [200, { pid, message: "Port monitoring stopped" }]);
  assert.equal((await sandbox.ask("DELETE", path)).status, 422);
  await sandbox.ask("DELETE", `/process/${name}/kill`);
});

test("a callback that refuses is asked three times and no more, and later ports are told all the same", async () => {
  await using callback = await startCallback((response) => void response.writeHead(500).end());
  const { pid, name, more } = await startListener();
  await sandbox.ask("POST", `/network/process/${pid}/monitor`, { json: { callback: callback.url } });
  await eventually(() => assert.equal(callback.told.length, 3));
  await more();
  await eventually(() => assert.equal(callback.told.length, 6));
  assert.equal(new Set(callback.told.map(({ port }) => port)).size, 2);
  await sandbox.ask("DELETE", `/process/${name}/kill`);
});

test("an endless answer of a callback costs nothing", async () => {
  await using callback = await startCallback((response) => {
    const timer = setInterval(() => response.write("x".repeat(65_536)), 1);
    response.once("close", () => clearInterval(timer));
  });
  const { pid, name } = await startListener();
  await sandbox.ask("POST", `/network/process/${pid}/monitor`, { json: { callback: callback.url } });
  await eventually(() => assert.equal(callback.told.length, 1));
  await sandbox.ask("DELETE", `/process/${name}/kill`);
  await eventually(async () => {
    assert.equal((await sandbox.ask("DELETE", `/network/process/${pid}/monitor`)).status, 422);
  });
});

const refusedCallbacks: [callback: unknown, status: number, message: RegExp][] = [
  [undefined, 400, /'callback' is missing/],
  ["", 400, /'callback' is missing/],
  [7, 400, /callback/],
  ["not a url", 400, /https? URL/],
  ["ftp://localhost/", 400, /https? URL/],
  ["unix:/run/socket", 400, /https? URL/],
  ["http://me:secret@localhost/", 400, /credentials/],
  ["http://localhost:0/", 400, /port of 'callback'/],
  ["http://a!b/", 400, /no name and no address/],
  [`http://${"a.".repeat(200)}b/`, 400, /no name and no address/],
  [`http://localhost/${"x".repeat(2_048)}`, 400, /callback/],
];

for (const [callback, status, message] of refusedCallbacks) {
  test(`the callback ${JSON.stringify(callback)?.slice(0, 60)} is refused`, async () => {
    const answer = await sandbox.ask("POST", "/network/process/1/monitor", { json: { callback } });
    assert.equal(answer.status, status);
    assert.match((answer.json as { error: string }).error, message);
  });
}

for (const pid of ["0", "-1", "x", "1.5", "99999999", "4194305"]) {
  test(`the pid ${pid} is refused`, async () => {
    for (const [method, path] of [
      ["GET", "ports"],
      ["POST", "monitor"],
      ["DELETE", "monitor"],
    ] as const) {
      const json = method === "POST" ? { callback: "http://localhost/" } : undefined;
      const answer = await sandbox.ask(method, `/network/process/${pid}/${path}`, { json });
      assert.equal(answer.status, 400);
      assert.match((answer.json as { error: string }).error, /pid must be/);
    }
  });
}

test("a process that does not exist has no ports and is not monitored", async () => {
  for (const [method, path] of [
    ["GET", "ports"],
    ["POST", "monitor"],
    ["DELETE", "monitor"],
  ] as const) {
    const json = method === "POST" ? { callback: "http://localhost/" } : undefined;
    assert.equal((await sandbox.ask(method, `/network/process/4194304/${path}`, { json })).status, 422);
  }
});

test(`${monitorsMax} processes are monitored at most, and the room of one that ended is free again`, async () => {
  const started = await sandbox.ask("POST", "/process", {
    json: { name: "many", command: `for i in $(seq ${monitorsMax + 1}); do sleep 1000 & echo $!; done; wait` },
  });
  assert.equal(started.status, 200);
  const pids = await eventually(async () => {
    const { logs } = (await sandbox.ask("GET", "/process/many")).json as { logs: string };
    const found = logs.match(/\d+/g) ?? [];
    assert.equal(found.length, monitorsMax + 1);
    return found;
  });
  const monitor = async (pid: string) =>
    (await sandbox.ask("POST", `/network/process/${pid}/monitor`, { json: { callback: "http://localhost:1/" } }))
      .status;
  for (const pid of pids.slice(0, monitorsMax)) assert.equal(await monitor(pid), 200);
  assert.equal(await monitor(pids[0]!), 200, "the same again is no other");
  assert.equal(await monitor(pids[monitorsMax]!), 429);
  assert.equal((await sandbox.ask("DELETE", `/network/process/${pids[3]}/monitor`)).status, 200);
  assert.equal(await monitor(pids[monitorsMax]!), 200);
  await sandbox.ask("DELETE", "/process/many/kill");
});

const notOffered: [method: string, path: string, status: number, message: RegExp][] = [
  ["PUT", "/network/tunnel/config", 501, /tunnels are not offered/],
  ["DELETE", "/network/tunnel", 501, /tunnels are not offered/],
  ["GET", "/drives/mount", 501, /Drives are not offered/],
  ["POST", "/drives/mount", 501, /Drives are not offered/],
  ["DELETE", "/drives/mount/mnt%2Fdata", 501, /Drives are not offered/],
  ["PUT", "/codegen/fastapply/src%2Fa.ts", 503, /RELACE_API_KEY or MORPH_API_KEY/],
  ["GET", "/codegen/reranking/src?query=x", 503, /RELACE_API_KEY or MORPH_API_KEY/],
];

for (const [method, path, status, message] of notOffered) {
  test(`${method} ${path} says that it is not offered, and why`, async () => {
    const json = method === "PUT" || method === "POST" ? { config: "e30=" } : undefined;
    const answer = await sandbox.ask(method, path, { json });
    assert.equal(answer.status, status);
    assert.match((answer.json as { error: string }).error, message);
  });
}
