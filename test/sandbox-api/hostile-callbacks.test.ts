// Callbacks through a sandbox that lies about the connections it makes: each costs its own call, bounded, and nothing is left open.
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { encodeHello, FrameWriter, frameHeader } from "../../src/host/guest/frames.ts";
import { frameType, revisionOf } from "../../src/host/guest/protocol.ts";
import { parseCallback, postFromInside } from "../../src/sandbox-api/network/callback.ts";
import { eventually } from "../eventually.ts";
import { emptyFrame, startFakeGuest } from "../guest/fake-guest.ts";

/** Of an init that can connect to names. */
const hello = Buffer.from([...encodeHello(1).subarray(0, 7), revisionOf.connectTo]);
const done = emptyFrame(frameType.done);
const failed = (errno: number, operation: string): Buffer =>
  new FrameWriter().u32(errno).text(operation).frame(frameType.failed, 0);

/** Writes the piece again and again as long as somebody reads. */
function endless(piece: Buffer): (socket: Socket) => void {
  return (socket) => {
    socket.write(done);
    const more = (): void => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.on("drain", more);
    more();
  };
}

const says =
  (...pieces: Buffer[]) =>
  (socket: Socket): void =>
    void socket.write(Buffer.concat(pieces));
const ends =
  (...pieces: Buffer[]) =>
  (socket: Socket): void =>
    void socket.end(Buffer.concat(pieces));

const lies: [what: string, answer: (socket: Socket) => void, code: string, isLost?: true][] = [
  ["nothing", () => undefined, "timeout"],
  ["its end", ends(), "unavailable"],
  ["half a frame", ends(done.subarray(0, 5)), "unavailable"],
  ["another frame", says(emptyFrame(frameType.listed)), "upstream_failed", true],
  ["a success with more in it", says(frameHeader(frameType.done, 0, 1), Buffer.alloc(1)), "upstream_failed", true],
  ["a frame longer than any", says(frameHeader(frameType.done, 0, 0xffff_ffff)), "upstream_failed", true],
  ["a refusal", says(failed(113, "connect")), "upstream_failed"],
  ["a refusal of the name", says(failed(2, "resolve")), "upstream_failed"],
  ["a refusal without a reason", says(failed(0, "")), "upstream_failed"],
  ["a failed fork", says(failed(11, "fork")), "rate_limited"],
  ["success and nothing", says(done), "timeout"],
  ["success and its end", ends(done), "upstream_failed"],
  ["what is no HTTP", ends(done, Buffer.from("SSH-2.0-OpenSSH\r\n\r\n")), "upstream_failed"],
  ["headers without end", endless(Buffer.from(`x-more: ${"y".repeat(1_000)}\r\n`)), "upstream_failed"],
  ["bytes without end", endless(Buffer.alloc(65_536, 0x61)), "upstream_failed"],
  ["interim answers without end", endless(Buffer.from("HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000))), "timeout"],
  ["a redirection", says(done, Buffer.from("HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n")), "upstream_failed"],
];

/** Only what would take for ever is given little time. */
const patienceMs = (code: string): number => (code === "timeout" ? 700 : 60_000);

for (const [what, answer, code, isLost = false] of lies) {
  test(`a connection that answers with ${what} is ${code}`, async () => {
    const open = new Set<Socket>();
    await using fake = await startFakeGuest({
      hello,
      onWorker(socket, received) {
        if (open.has(socket) || received.length === 0) return;
        open.add(socket);
        socket.once("close", () => open.delete(socket));
        answer(socket);
      },
    });
    let lost = false;
    await using guest = await fake.open({
      onLost: () => {
        lost = true;
      },
    });
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(new DOMException("too long", "TimeoutError")), patienceMs(code));
    const posted = postFromInside(guest, parseCallback("http://hooks.test/"), {}, patience.signal);
    await assert.rejects(posted, (error: Error & { code?: unknown }) =>
      code === "timeout" ? /time|long/.test(`${error.name} ${error.message}`) : error.code === code,
    );
    clearTimeout(timer);
    assert.equal(lost, isLost);
    await eventually(() => assert.equal(open.size, 0));
  });
}

test("TLS with a server that hangs, or speaks something else, ends at the deadline or at once", async () => {
  for (const [answer, code, pattern] of [
    [says(done), "timeout", /too long/],
    [says(done, Buffer.from("HTTP/1.1 200 OK\r\n\r\n")), "upstream_failed", /TLS .* failed/],
    [ends(done), "upstream_failed", /TLS|closed/],
  ] as const) {
    let asked = false;
    await using fake = await startFakeGuest({
      hello,
      onWorker(socket, received) {
        if (received.length > 0 && !asked) {
          asked = true;
          answer(socket);
        }
      },
    });
    await using guest = await fake.open();
    const signal = AbortSignal.timeout(patienceMs(code));
    await assert.rejects(postFromInside(guest, parseCallback("https://hooks.test/"), {}, signal), pattern);
  }
});
