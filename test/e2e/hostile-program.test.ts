// What a program inside a real sandbox is told of those who come to it: everything it is sent, over HTTP/1, HTTP/2 and tunnels.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request as requestHttp1 } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2, type OutgoingHttpHeaders } from "node:http2";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";

/** Answers with the head of the request, byte for byte; one that asks for a tunnel is told the same way. With /stream it echoes. */
const program = `
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        head = (self.requestline + "\\n" + str(self.headers)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(head)))
        self.send_header("set-cookie", "planted=1; Domain=localhost; Path=/")
        self.end_headers()
        self.wfile.write(head)

    def do_POST(self):
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while True:
            # The end of a chunk's line may come with the next chunk.
            size = int(self.rfile.readline().strip() or self.rfile.readline(), 16)
            piece = self.rfile.read(size)
            self.wfile.write(b"%x\\r\\n" % size + piece + b"\\r\\n")
            if size == 0:
                return

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`;

let platform: SpawnedPlatform;
let session: ClientHttp2Session;
let token = "";
let preview = "";

before(async () => {
  platform = await spawnPlatform();
  await platform.call("POST", "/v0/sandboxes", { metadata: { name: "hostile" }, spec: { runtime: { memory: 1024 } } });
  const base = "/run/main/sandboxes/hostile";
  await platform.call("PUT", `${base}/filesystem/%2Fapp%2Fprogram.py`, { content: program });
  await platform.call("POST", `${base}/process`, { command: "python3 /app/program.py", waitForPorts: [8000] });
  const previews = "/v0/sandboxes/hostile/previews";
  const spec = { port: 8000, public: false, responseHeaders: { "X-Own": "1", "Access-Control-Allow-Origin": "*" } };
  const made = await platform.call("POST", previews, { metadata: { name: "web" }, spec });
  preview = new URL((made.spec as { url: string }).url).pathname;
  const given = await platform.call("POST", `${previews}/web/tokens`, { metadata: { name: "t" } });
  token = (given.spec as { token: string }).token;
  session = connectHttp2(platform.url);
});

after(async () => {
  session?.destroy();
  await platform[Symbol.asyncDispose]();
});

/** Names and values in turn, duplicates and all. */
async function askHttp1(path: string, headers: string[]): Promise<string> {
  const sent = requestHttp1(`${platform.url}${path}`, { headers: ["host", new URL(platform.url).host, ...headers] });
  const [answer] = await once(sent.end(), "response");
  return Buffer.concat(await answer.toArray()).toString();
}

async function askHttp2(path: string, headers: string[]): Promise<string> {
  const fields: Record<string, string> = { ":path": path };
  for (let index = 0; index < headers.length; index += 2) fields[headers[index]!.toLowerCase()] = headers[index + 1]!;
  return Buffer.concat(await session.request(fields).toArray()).toString();
}

async function askTunnel(path: string, headers: string[]): Promise<string> {
  const { hostname, port, host } = new URL(platform.url);
  const socket = connect(Number(port), hostname);
  const lines = [`GET ${path} HTTP/1.1`, `host: ${host}`, "connection: Upgrade", "upgrade: websocket"];
  for (let index = 0; index < headers.length; index += 2) lines.push(`${headers[index]}: ${headers[index + 1]}`);
  lines.push("sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", "", "");
  socket.write(lines.join("\r\n"));
  let text = "";
  socket.on("data", (piece) => {
    text += piece.toString("latin1");
  });
  try {
    await eventually(() => assert.match(text, /\n\n$|\r\n0\r\n\r\n$/));
  } finally {
    socket.destroy();
  }
  return text;
}

for (const [how, ask] of [
  ["HTTP/1", askHttp1],
  ["HTTP/2", askHttp2],
  ["a tunnel", askTunnel],
] as const) {
  test(`a program sees none of the platform's credentials over ${how}, and its own`, async () => {
    const { apiKey } = platform;
    const direct = "/run/main/sandboxes/hostile/port/8000/seen";
    const own = ["x-blaxel-authorization", `Bearer ${apiKey}`];
    const basic = Buffer.from(`user:${apiKey}`).toString("base64");
    for (const value of [`Bearer ${apiKey}`, `Token ${apiKey}`, `Basic ${basic}`, `Bearer ${token}`]) {
      for (const text of [
        await ask(direct, [...own, "authorization", value]),
        await ask(`${preview}/seen`, ["x-blaxel-preview-token", token, "authorization", value]),
        await ask(`${preview}/seen?bl_preview_token=${token}`, [...own, "authorization", value]),
      ]) {
        assert.match(text, /GET \/seen HTTP/);
        for (const secret of [apiKey, token, basic]) assert.ok(!text.includes(secret), text);
      }
    }
    assert.match(await ask(direct, [...own, "authorization", "Bearer inside"]), /Bearer inside/);
  });
}

test("over HTTP/2 a private preview streams bodies both ways, and takes out what its program says of the platform", async () => {
  const open = (headers: OutgoingHttpHeaders) => session.request({ ":path": `${preview}/stream`, ...headers });
  const refused = open({ "x-blaxel-preview-token": "pt_wrong" });
  const [head] = (await once(refused.end(), "response")) as [Record<string, unknown>];
  assert.equal(head[":status"], 401);
  refused.resume();

  const stream = open({ ":method": "POST", "x-blaxel-preview-token": token }).setEncoding("utf8");
  stream.write("first");
  assert.equal((await once(stream, "data"))[0], "first");
  stream.write("second");
  assert.equal((await once(stream, "data"))[0], "second");
  stream.end();
  await once(stream, "end");

  const seen = session.request({ ":path": `${preview}/seen`, "x-blaxel-preview-token": token });
  const [answer] = (await once(seen, "response")) as [Record<string, unknown>];
  assert.deepEqual([answer[":status"], answer["x-own"], answer["set-cookie"]], [200, "1", undefined]);
  assert.match(String(answer["content-security-policy"]), /^sandbox /);
  seen.resume();
});
