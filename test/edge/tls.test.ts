// TLS on the one listener: the same rules as in the clear, certificates that are renewed while it serves, handshakes that never end.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { type RequestOptions, request } from "node:https";
import { connect as connectSocket, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, test } from "node:test";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { createLogger, type Logger } from "../../src/core/log.ts";
import type { listenerLimits } from "../../src/dev/listener.ts";
import { openTls, readTlsFiles, type TlsFiles } from "../../src/dev/tls.ts";
import { eventually } from "../eventually.ts";
import { type Certificate, makeCertificate } from "./certificate.ts";
import { apiKey, startEdge, type TestEdge } from "./harness.ts";

const directory = mkdtempSync(join(tmpdir(), "catnap-tls-"));
after(() => rmSync(directory, { recursive: true, force: true }));
const opened: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

type Line = { level: string; message: string };

/** A log that keeps what is said at the levels people are to see. */
function keepLog(): { log: Logger; lines: Line[] } {
  const lines: Line[] = [];
  const log = createLogger("silent");
  for (const level of ["info", "warn", "error"] as const) {
    log[level] = ((_fields: object, message: string) => lines.push({ level, message })) as unknown as Logger["info"];
  }
  return { log, lines };
}

type Secured = { edge: TestEdge; lines: Line[]; paths: TlsFiles; write(certificate: Partial<Certificate>): void };

let count = 0;
function files() {
  const place = join(directory, String(count++));
  mkdirSync(place);
  return { certPath: join(place, "cert.pem"), keyPath: join(place, "key.pem") };
}

async function start(certificate: Certificate, limits: Partial<typeof listenerLimits> = {}): Promise<Secured> {
  const paths = files();
  const write = ({ cert, key }: Partial<Certificate>): void => {
    if (cert !== undefined) writeFileSync(paths.certPath, cert);
    if (key !== undefined) writeFileSync(paths.keyPath, key);
  };
  write(certificate);
  const { log, lines } = keepLog();
  const tls = openTls({ files: paths, log, intervalMs: 20 });
  const edge = await startEdge(limits, { tls });
  opened.push(
    () => edge[Symbol.asyncDispose](),
    () => tls[Symbol.asyncDispose](),
  );
  return { edge, lines, paths, write };
}

async function handshake({ edge }: Secured, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ port: edge.port, host: "127.0.0.1", servername: "localhost", ...options });
  opened.push(() => socket.destroy());
  socket.on("error", () => undefined);
  await once(socket, "secureConnect");
  return socket;
}

const authorized = { authorization: `Bearer ${apiKey}` };

async function askHttp1({ edge }: Secured, options: RequestOptions): Promise<{ status: number; body: string }> {
  const sent = request({ port: edge.port, host: "127.0.0.1", servername: "localhost", agent: false, ...options }).end();
  const [response] = (await once(sent, "response")) as [import("node:http").IncomingMessage];
  return { status: response.statusCode!, body: String(Buffer.concat(await response.toArray())) };
}

test("HTTP/2 and HTTP/1 are agreed on in the handshake, under the same rules", async () => {
  const certificate = makeCertificate();
  const secured = await start(certificate);
  const path = "/run/main/sandboxes/box/x";
  const { cert: ca } = certificate;
  assert.deepEqual(await askHttp1(secured, { path, ca, headers: authorized }), { status: 200, body: "from box" });
  assert.equal((await askHttp1(secured, { path, ca })).status, 401);
  const session = connectHttp2(`https://localhost:${secured.edge.port}`, { ca, lookup: undefined });
  opened.push(() => session.destroy());
  for (const [headers, status] of [[authorized, 200] as const, [{}, 401] as const]) {
    const stream = session.request({ ":path": path, ...headers });
    const [answer] = (await once(stream, "response")) as [Record<string, unknown>];
    assert.equal(answer[":status"], status);
    await stream.toArray();
  }
  assert.equal(session.alpnProtocol, "h2");
  const silent = await handshake(secured, { ca });
  assert.equal(silent.alpnProtocol, false);
  silent.write("GET /v0/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  assert.match(String(await once(silent, "data")), /^HTTP\/1\.1 200/);
});

test("what is neither of the two, older than TLS 1.2, or no TLS is refused, and the listener goes on", async () => {
  const certificate = makeCertificate();
  const secured = await start(certificate);
  const { cert: ca } = certificate;
  await assert.rejects(handshake(secured, { ca, ALPNProtocols: ["spdy/3"] }));
  const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
  await assert.rejects(handshake(secured, { ca, ...old }));
  await assert.rejects(handshake(secured, { ca, maxVersion: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES128-SHA" }));
  assert.equal((await handshake(secured, { ca, maxVersion: "TLSv1.2" })).getProtocol(), "TLSv1.2");
  assert.equal((await handshake(secured, { ca })).getProtocol(), "TLSv1.3");
  for (const bytes of ["\x16\x03\x01\xff\xff", "\0".repeat(50)]) {
    assert.doesNotMatch(await secured.edge.raw(bytes, /HTTP/), /HTTP/);
  }
  assert.equal((await askHttp1(secured, { path: "/v0/x", ca })).status, 200);
});

test("who speaks HTTP where HTTPS is spoken is told so, however slowly or much, and reaches nobody", async () => {
  const secured = await start(makeCertificate());
  const answer = /^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*server-timing: total[\s\S]*use https:\/\//;
  for (const bytes of ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "P"]) {
    assert.match(await secured.edge.raw(bytes, /https:\/\/ instead/), answer);
  }
  for (let count = 0; count < 5; count++) {
    const flood = `POST /run/main/sandboxes/box/x HTTP/1.1\r\n\r\n${"x".repeat(4 << 20)}`;
    assert.match(await secured.edge.raw(flood, /http:\/\/\./), answer);
  }
  assert.deepEqual(secured.edge.arrivals, []);
});

test("who speaks TLS where HTTP is spoken is refused at once", async () => {
  await using edge = await startEdge();
  const socket = connect({ port: edge.port, host: "127.0.0.1", servername: "localhost" });
  const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
  assert.match(error.code!, /^ERR_SSL_/);
  assert.match(await edge.raw("\x16\x03\x01\x02\0\x01\0", /\}$/), /^HTTP\/1\.1 400 [\s\S]*not a valid HTTP request/);
});

test("a renewed certificate is used for new connections while those that are open go on", async () => {
  const first = makeCertificate({ name: "first" });
  const second = makeCertificate({ name: "second" });
  const secured = await start(first);
  const ca = [first.cert, second.cert];
  const open = await handshake(secured, { ca });
  const subject = async (): Promise<unknown> => (await handshake(secured, { ca })).getPeerCertificate().subject.CN;
  assert.equal(await subject(), "first");
  secured.write(second);
  await eventually(async () => assert.equal(await subject(), "second"), { intervalMs: 10 });
  open.write("GET /v0/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  assert.match(String(await once(open, "data")), /^HTTP\/1\.1 200/);
  assert.deepEqual(secured.lines, Array(2).fill({ level: "info", message: "TLS certificate read" }));
});

const broken: [what: string, change: (other: Certificate) => Partial<Certificate>][] = [
  ["a certificate that is none", () => ({ cert: "no certificate" })],
  ["a certificate with another key", ({ cert }) => ({ cert })],
  ["a key that is none", () => ({ key: "no key" })],
];
for (const [what, change] of broken) {
  test(`${what} changes nothing but the log, until the files are right`, async () => {
    const first = makeCertificate({ name: "first" });
    const second = makeCertificate({ name: "second" });
    const secured = await start(first);
    const ca = [first.cert, second.cert];
    secured.write(change(makeCertificate()));
    await eventually(() => assert.equal(secured.lines.at(-1)?.level, "error"), { intervalMs: 10 });
    assert.match(secured.lines.at(-1)!.message, /renewed TLS certificate cannot be used/);
    assert.equal((await handshake(secured, { ca })).getPeerCertificate().subject.CN, "first");
    assert.equal(secured.lines.filter(({ level }) => level === "error").length, 1);
    secured.write(second);
    await eventually(async () => {
      assert.equal((await handshake(secured, { ca })).getPeerCertificate().subject.CN, "second");
    });
  });
}

test("a path that leads nowhere changes nothing but the log, until the file is there", async () => {
  const first = makeCertificate({ name: "first" });
  const second = makeCertificate({ name: "second" });
  const secured = await start(first);
  const ca = [first.cert, second.cert];
  const { certPath } = secured.paths;
  rmSync(certPath);
  symlinkSync(certPath, certPath);
  await eventually(() => assert.equal(secured.lines.at(-1)?.level, "error"), { intervalMs: 10 });
  assert.equal((await handshake(secured, { ca })).getPeerCertificate().subject.CN, "first");
  rmSync(certPath);
  secured.write(second);
  await eventually(async () => {
    assert.equal((await handshake(secured, { ca })).getPeerCertificate().subject.CN, "second");
  });
});

test("files that cannot be used at the start are an error that names the setting", () => {
  const { log, lines } = keepLog();
  const good = makeCertificate();
  const open = (certificate: Partial<Certificate>): void => {
    const paths = files();
    if (certificate.cert !== undefined) writeFileSync(paths.certPath, certificate.cert);
    if (certificate.key !== undefined) writeFileSync(paths.keyPath, certificate.key);
    const tls = openTls({ files: paths, log });
    opened.push(() => tls[Symbol.asyncDispose]());
  };
  assert.throws(() => open({ key: good.key }), /^AppError: CATNAP_TLS_CERT must be a file that can be read/);
  assert.throws(() => open({ cert: good.cert }), /^AppError: CATNAP_TLS_KEY must be a file that can be read/);
  assert.throws(() => open({ ...good, cert: "x" }), /^AppError: CATNAP_TLS_CERT must be a file of certificates/);
  assert.throws(() => open({ ...good, key: "x" }), /^AppError: CATNAP_TLS_KEY must be a file with a private key/);
  assert.throws(() => open({ ...good, cert: "x".repeat(2 << 20) }), /CATNAP_TLS_CERT must be a file of at most/);
  assert.throws(() => open({ ...good, key: makeCertificate().key }), /CATNAP_TLS_KEY must be the key of the cert/);
  assert.throws(
    () => openTls({ files: { certPath: directory, keyPath: directory }, log }),
    /CATNAP_TLS_CERT must be a file/,
  );
  assert.throws(() => readTlsFiles({ CATNAP_TLS_CERT: "/x" }), /CATNAP_TLS_KEY must be set together/);
  assert.throws(() => readTlsFiles({ CATNAP_TLS_KEY: "/x" }), /CATNAP_TLS_CERT must be set together/);
  assert.equal(readTlsFiles({ CATNAP_TLS_KEY: "" }), undefined);
  assert.deepEqual(lines, []);
  open(makeCertificate({ expiresAt: new Date(Date.now() - 1_000) }));
  assert.deepEqual(lines.at(-1), { level: "warn", message: "the TLS certificate has expired" });
});

test("handshakes that stall or drip end in time, and count as connections", async () => {
  const certificate = makeCertificate();
  const secured = await start(certificate, { headersTimeoutMs: 600, connectionsMax: 10 });
  const { cert: ca } = certificate;
  const hello = Buffer.from("160301020001", "hex");
  const stalled = await Promise.all(
    Array.from({ length: 10 }, async (): Promise<Socket> => {
      const socket = connectSocket(secured.edge.port, "127.0.0.1");
      opened.push(() => socket.destroy());
      socket.on("error", () => undefined);
      await once(socket, "connect");
      socket.write(hello);
      return socket;
    }),
  );
  const drip = setInterval(() => stalled[0]!.write(Buffer.from([0])), 50);
  opened.push(() => clearInterval(drip));
  const ended = Promise.all(stalled.map((socket) => new Promise((resolve) => socket.resume().once("close", resolve))));
  await assert.rejects(askHttp1(secured, { path: "/v0/x", ca }));
  await ended;
  assert.equal((await askHttp1(secured, { path: "/v0/x", ca })).status, 200);
});
