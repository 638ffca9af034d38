// Sockets inside are told with their addresses, states and the processes that hold them.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { startWithFiles } from "./with-files.ts";

async function listen(server: Server, host: string): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return (server.address() as { port: number }).port;
}

test("sockets are told with their addresses, states and holders", async () => {
  await using session = await startWithFiles();
  const { guest } = session;
  await using four = createServer();
  await using six = createServer();
  const ports = { four: await listen(four, "127.0.0.1"), six: await listen(six, "::1") };
  const sockets = await guest.sockets();
  const of = (port: number) => sockets.find(({ localPort }) => localPort === port);
  assert.deepEqual(
    { ...of(ports.four), processName: "" },
    {
      pid: process.pid,
      processName: "",
      protocol: "tcp",
      state: "LISTEN",
      localAddress: "127.0.0.1",
      localPort: ports.four,
      remoteAddress: "0.0.0.0",
      remotePort: 0,
    },
  );
  assert.equal(of(ports.six)?.localAddress, "::1");
  assert.equal(of(ports.six)?.state, "LISTEN");
  assert.ok((await guest.sockets(process.pid)).some(({ localPort }) => localPort === ports.four));
});

test("sockets of one process are its own and its descendants', also of those that went to the background", async () => {
  await using session = await startWithFiles();
  const { dir, guest } = session;
  const script = `import os, socket, sys, time
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen()
if os.fork() == 0:
    if os.fork() == 0:
        other = socket.socket(); other.bind(("127.0.0.1", 0)); other.listen()
        open(sys.argv[1] + "/port", "w").write("%d %d\\n" % (listener.getsockname()[1], other.getsockname()[1]))
        time.sleep(600)
    os._exit(0)
time.sleep(600)`;
  const argv = ["python3", "-c", script, dir];
  const { pid } = await guest.spawn({ token: "ports", argv, workingDir: "/", environment: { PATH: "/usr/bin:/bin" } });
  const read = (): string => (fs.existsSync(join(dir, "port")) ? fs.readFileSync(join(dir, "port"), "utf8") : "");
  await eventually(() => assert.ok(read().endsWith("\n"), "the background program has not said its port"));
  const wanted = read().trim().split(" ").map(Number);
  const found = (await guest.sockets(pid)).map(({ localPort }) => localPort);
  assert.deepEqual(found.sort(), wanted.sort());
  assert.deepEqual(await guest.sockets(0x7fff_fffe), []);
  await guest.signal("ports", 9);
});
