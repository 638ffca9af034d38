// On real instances: open connections that carry nothing let a sandbox sleep, and what they carry wakes it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import WebSocket from "ws";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";

/** A WebSocket server in the standard library alone, for messages of up to 125 bytes. */
const server = `
import base64, hashlib, socket, threading
def exactly(c, n):
    b = b""
    while len(b) < n:
        p = c.recv(n - len(b))
        if not p: raise SystemExit
        b += p
    return b
def serve(c):
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"): head += exactly(c, 1)
    key = [l.split(b": ")[1] for l in head.split(b"\\r\\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: upgrade\\r\\nsec-websocket-accept: " + accept + b"\\r\\n\\r\\n")
    while True:
        first, length = exactly(c, 2)
        mask, data = exactly(c, 4), exactly(c, length & 127)
        data = bytes(d ^ mask[i % 4] for i, d in enumerate(data))
        opcode = first & 15
        if opcode == 1: print(data.decode(), flush=True)
        if opcode == 9: c.sendall(bytes([0x8a, len(data)]) + data)
        if opcode == 1: c.sendall(bytes([0x81, len(data)]) + data)
        if opcode == 8: return c.close()
s = socket.create_server(("0.0.0.0", 9000))
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`;

let platform: SpawnedPlatform;
const base = "/run/main/sandboxes/still";

before(async () => {
  platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "500ms", CATNAP_WARM_INSTANCES: "0" });
  await platform.call("POST", "/v0/sandboxes", { metadata: { name: "still" }, spec: { runtime: { memory: 512 } } });
  await platform.call("PUT", `${base}/filesystem/tmp%2Fws.py`, { content: server });
  await platform.call("POST", `${base}/process`, {
    name: "ws",
    command: "python3 /tmp/ws.py",
  });
});
after(() => platform[Symbol.asyncDispose]());

async function asleep(): Promise<void> {
  assert.equal((await platform.call("GET", "/v0/sandboxes/still")).state, "STANDBY");
}

test("a WebSocket with a pinging caller and a log nobody writes to let the sandbox sleep; a message wakes it", async () => {
  const headers = { authorization: `Bearer ${platform.apiKey}` };
  const logs = await fetch(`${platform.url}${base}/process/ws/logs/stream`, { headers });
  const reader = logs.body!.pipeThrough(new TextDecoderStream()).getReader();
  const url = `${platform.url.replace("http", "ws")}${base}/port/9000/`;
  const socket = await eventually(async () => {
    const opened = new WebSocket(url, { headers });
    await once(opened, "open");
    return opened;
  });
  let pongs = 0;
  socket.on("pong", () => {
    pongs += 1;
  });
  const pinging = setInterval(() => socket.ping("p"), 100);
  try {
    for (let nap = 0; nap < 5; nap++) {
      await eventually(asleep);
      const heard = pongs;
      await eventually(() => assert.ok(pongs > heard + 5));
      await asleep();
      socket.send(`message ${nap}`);
      const [data] = (await once(socket, "message")) as [Buffer];
      assert.equal(String(data), `message ${nap}`);
    }
    let text = "";
    while (!text.includes("message 4")) text += (await reader.read()).value;
    assert.deepEqual(
      text.match(/message \d/g),
      [0, 1, 2, 3, 4].map((nap) => `message ${nap}`),
    );
  } finally {
    clearInterval(pinging);
    socket.terminate();
    await reader.cancel();
  }
});
