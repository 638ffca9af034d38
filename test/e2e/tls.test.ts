// A whole platform with TLS and a real sandbox: every address it tells is https, clients of both HTTPs work, a renewal disturbs nobody.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect, getCACertificates, setDefaultCACertificates } from "node:tls";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { makeCertificate } from "../edge/certificate.ts";
import { eventually } from "../eventually.ts";
import { type Client, loadClient, type ClientSandbox as Sandbox } from "./load-client.ts";

/** Answers with the headers it was sent. */
const headersServer = `
import http.server, json

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`;

const directory = mkdtempSync(join(tmpdir(), "catnap-e2e-tls-"));
const files = { cert: join(directory, "cert.pem"), key: join(directory, "key.pem") };
const first = makeCertificate({ name: "first" });
const renewed = makeCertificate({ name: "renewed" });

let platform: SpawnedPlatform;
let client: Client;
let sandbox: Sandbox;
let session: ClientHttp2Session;

before(async () => {
  setDefaultCACertificates([...getCACertificates("default"), first.cert, renewed.cert]);
  writeFileSync(files.cert, first.cert);
  writeFileSync(files.key, first.key);
  platform = await spawnPlatform({ CATNAP_TLS_CERT: files.cert, CATNAP_TLS_KEY: files.key });
  client = await loadClient(platform);
  sandbox = await client.SandboxInstance.create({ name: "secured", memory: 512 });
  await sandbox.fs.write("/app/server.py", headersServer);
  await sandbox.process.exec({ name: "server", command: "python3 /app/server.py", waitForPorts: [8000] });
  session = connectHttp2(platform.url);
});

after(async () => {
  session?.destroy();
  await platform?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

type Answer = { status: unknown; body: string };

async function askHttp2(url: string): Promise<Answer> {
  const authorization = `Bearer ${platform.apiKey}`;
  const stream = session.request({ ":path": new URL(url).pathname, authorization });
  const [head] = (await once(stream, "response")) as [IncomingHttpHeaders];
  return { status: head[":status"], body: Buffer.concat(await stream.toArray()).toString() };
}

test("the addresses of platform, sandbox, preview and issuer are https", async () => {
  assert.match(platform.url, /^https:/);
  assert.equal(sandbox.metadata.url, `${platform.url}/run/main/sandboxes/secured`);
  const { spec } = await sandbox.previews.create({ metadata: { name: "open" }, spec: { port: 8000, public: true } });
  assert.equal(new URL(spec.url!).protocol, "https:");
  assert.equal((await fetch(spec.url!)).status, 200);
  const metadata = await fetch(`${platform.url}/v0/.well-known/openid-configuration`);
  const { issuer, token_endpoint: endpoint } = (await metadata.json()) as Record<string, string>;
  assert.equal(issuer, `${platform.url}/v0`);
  assert.ok(endpoint!.startsWith(`${platform.url}/`), endpoint);
});

test("a server inside learns that its callers came by https, whatever HTTP they speak", async () => {
  const url = `${sandbox.metadata.url}/port/8000/`;
  const byHttp1 = await fetch(url, { headers: { authorization: `Bearer ${platform.apiKey}` } });
  const { spec } = await sandbox.previews.createIfNotExists({
    metadata: { name: "open" },
    spec: { port: 8000, public: true },
  });
  for (const text of [await byHttp1.text(), (await askHttp2(url)).body, await (await fetch(spec.url!)).text()]) {
    assert.equal((JSON.parse(text) as Record<string, string>)["x-forwarded-proto"], "https");
  }
});

test("the official client and a client of HTTP/2 do the same", async () => {
  const ran = await sandbox.process.exec({ name: "said", command: "echo hello", waitForCompletion: true });
  assert.deepEqual([ran.exitCode, ran.stdout], [0, "hello\n"]);
  assert.equal(session.alpnProtocol, "h2");
  const { status, body } = await askHttp2(`${sandbox.metadata.url}/process/said/logs`);
  assert.deepEqual([status, (JSON.parse(body) as { stdout: string }).stdout], [200, "hello\n"]);
});

async function presented(): Promise<string> {
  const { hostname: host, port } = new URL(platform.url);
  const socket = connect({ host, port: Number(port) });
  try {
    await once(socket, "secureConnect");
    return String(socket.getPeerCertificate().subject.CN);
  } finally {
    socket.destroy();
  }
}

test("streams of both HTTPs go on while the certificate is renewed", async () => {
  await sandbox.process.exec({
    name: "waits",
    command: "echo begun; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo done",
  });
  const url = `${sandbox.metadata.url}/process/waits/logs/stream`;
  const authorization = `Bearer ${platform.apiKey}`;
  const stream = session.request({ ":path": new URL(url).pathname, authorization });
  const received = { http1: "", http2: "" };
  stream.on("data", (chunk: Buffer) => {
    received.http2 += chunk;
  });
  const ended = once(stream, "end");
  const followed = fetch(url, { headers: { authorization } }).then(async ({ body }) => {
    for await (const chunk of body!) received.http1 += Buffer.from(chunk).toString();
  });
  await eventually(() => {
    for (const text of Object.values(received)) assert.match(text, /begun/);
  });
  assert.equal(await presented(), "first");
  writeFileSync(files.cert, renewed.cert);
  writeFileSync(files.key, renewed.key);
  await eventually(async () => assert.equal(await presented(), "renewed"));
  for (const text of Object.values(received)) assert.doesNotMatch(text, /done/);
  await sandbox.fs.write("/tmp/go", "");
  await Promise.all([ended, followed]);
  for (const text of Object.values(received)) assert.match(text, /begun[\s\S]*done/);
});
