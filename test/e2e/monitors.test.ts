// Port monitors of real sandboxes: callbacks go where the sandbox's own network and names let them, and nowhere else.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { type Outside, openOutside } from "../network/outside.ts";

let outside: Outside;
let platform: SpawnedPlatform;
before(async () => {
  outside = await openOutside();
  platform = await spawnPlatform({
    CATNAP_IDLE_TIMEOUT: "1s",
    CATNAP_WARM_INSTANCES: "0",
    CATNAP_NETWORK_CIDR: "10.212.0.0/16",
  });
});
after(async () => {
  await platform[Symbol.asyncDispose]();
  await outside[Symbol.asyncDispose]();
});

/** Prints what it is told, a line each, and thanks for it. */
const receiver = `
import http.server, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        print(self.headers["host"], self.path, body, flush=True)
        self.send_response(204); self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Receiver)
print("ready", flush=True)
server.serve_forever()
`;

/** Listens on one port for each file in a directory. */
const listener = `
import os, socket, sys, time
kept = {}
while True:
    for name in set(os.listdir(sys.argv[1])) - set(kept):
        kept[name] = socket.create_server(("127.0.0.1", int(name)))
    time.sleep(0.02)
`;

async function create(name: string) {
  await platform.call("POST", "/v0/sandboxes", { metadata: { name }, spec: { runtime: { memory: 512 } } });
  const call = (method: string, path: string, body?: unknown) =>
    platform.call(method, `/run/main/sandboxes/${name}${path}`, body);
  await call("PUT", "/filesystem/tmp%2Freceiver.py", { content: receiver });
  await call("PUT", "/filesystem/tmp%2Flistener.py", { content: listener });
  const listen = (port: number) => call("PUT", `/filesystem/tmp%2Fports%2F${port}`, { content: "" });
  await listen(9001);
  const command = "exec python3 /tmp/listener.py /tmp/ports";
  const { pid } = await call("POST", "/process", { name: "listener", command });
  return {
    call,
    listen,
    pid: Number(pid),
    run: async (script: string): Promise<string> =>
      (await call("POST", "/process", { command: script, waitForCompletion: true })).stdout as string,
    monitor: (callback: string) => call("POST", `/network/process/${pid}/monitor`, { callback }),
    /** Waits while somebody uses the sandbox: nobody is told by one that sleeps. */
    whileUsed: (check: () => void) =>
      eventually(async () => {
        await call("GET", "/process");
        check();
      }),
    state: async () => ((await platform.call("GET", `/v0/sandboxes/${name}`)) as { state: string }).state,
    [Symbol.asyncDispose]: async () => void (await platform.call("DELETE", `/v0/sandboxes/${name}`)),
  };
}

type Receiver = { lines: string[] } & AsyncDisposable;

/** In the namespace outside. */
async function receiveOutside(address: string, port: number): Promise<Receiver> {
  const argv = [...outside.enter, "python3", "-c", receiver, address, String(port)];
  const child: ChildProcess = spawn("nsenter", argv, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout!.on("data", (piece: Buffer) => {
    text += String(piece);
  });
  await eventually(() => assert.match(text, /^ready/));
  return {
    get lines() {
      return text.trim().split("\n").slice(1);
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

const told = (host: string, path: string, pid: number, port: number): string =>
  `${host} ${path} ${JSON.stringify({ pid, port })}`;

test("a callback on the sandbox's own address, and one outside by its address and by a name of /etc/hosts, are told", {
  timeout: 400_000,
}, async () => {
  await using sandbox = await create("reaching");
  const own = (await sandbox.run("hostname -I || ip -4 -o addr show eth0")).match(/10\.212\.\d+\.\d+/)?.[0];
  assert.ok(own !== undefined);
  await sandbox.call("POST", "/process", { name: "receiver", command: `exec python3 /tmp/receiver.py ${own} 9100` });
  const heard = async () => (await sandbox.call("GET", "/process/receiver/logs")).stdout as string;
  await eventually(async () => assert.match(await heard(), /^ready/));
  await sandbox.monitor(`http://${own}:9100/own?token=1`);
  const expected = told(`${own}:9100`, "/own?token=1", sandbox.pid, 9001);
  await eventually(async () => assert.equal(await heard(), `ready\n${expected}\n`));

  const { publicAddress } = outside;
  await using receiving = await receiveOutside(publicAddress, 8090);
  await sandbox.monitor(`http://${publicAddress}:8090/out`);
  await sandbox.whileUsed(() => {
    assert.deepEqual(receiving.lines, [told(`${publicAddress}:8090`, "/out", sandbox.pid, 9001)]);
  });
  await sandbox.run(`echo "${publicAddress} hooks.test" >> /etc/hosts`);
  await sandbox.monitor("http://hooks.test:8090/name");
  await sandbox.whileUsed(() => assert.equal(receiving.lines[1], told("hooks.test:8090", "/name", sandbox.pid, 9001)));
});

test("a monitor lets its sandbox sleep, and goes on after the daemon was killed and when it is awake", {
  timeout: 400_000,
}, async () => {
  await using sandbox = await create("lasting");
  const { publicAddress } = outside;
  await using receiving = await receiveOutside(publicAddress, 8092);
  await sandbox.monitor(`http://${publicAddress}:8092/`);
  await sandbox.whileUsed(() => assert.equal(receiving.lines.length, 1));
  await eventually(async () => assert.equal(await sandbox.state(), "STANDBY"));
  await platform.kill();
  await platform.start();
  await sandbox.listen(9002);
  await sandbox.whileUsed(() => assert.equal(receiving.lines.length, 2));
  assert.deepEqual(
    receiving.lines,
    [9001, 9002].map((port) => told(`${publicAddress}:8092`, "/", sandbox.pid, port)),
  );
});
