// Falling asleep and waking, hurried: idle times of milliseconds, requests that meet every moment of it, and holds that must come back.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { openListener } from "../../src/dev/listener.ts";
import { eventually } from "../eventually.ts";
import { apiKey, HostHarness } from "./harness.ts";

const asleep = (harness: HostHarness, name: string) => () => assert.equal(harness.status(name).state, "STANDBY");

test("requests that meet a sandbox while it falls asleep, sleeps and wakes are all answered", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 1 });
  const names = ["one", "two", "three"];
  for (const name of names) await harness.create(name);
  const wrong: string[] = [];
  const caller = async (name: string, seed: number, phase: number): Promise<void> => {
    for (let round = phase * 10; round < phase * 10 + 10; round++) {
      const response = await harness.ask(name, "GET", "/process", undefined, AbortSignal.timeout(60_000));
      const text = await response.text();
      if (response.status !== 200) wrong.push(`${name} answered ${response.status}: ${text}`);
      // Pauses of every length around the standby loop's period meet every phase of a freeze.
      await new Promise((resolve) => setTimeout(resolve, (seed * 7 + round * 3) % 60));
    }
  };
  for (let phase = 0; phase < 4; phase++) {
    await Promise.all(names.flatMap((name) => [1, 2, 3].map((seed) => caller(name, seed, phase))));
    // On a slow machine somebody asks all the time; each falls asleep at least now.
    for (const name of names) await eventually(asleep(harness, name));
  }
  assert.deepEqual(wrong, []);
  assert.ok(harness.driver.count("freeze") > 10, `${harness.driver.count("freeze")} freezes`);
  assert.deepEqual(harness.driver.overlaps, []);
});

const awake = (harness: HostHarness, name: string) => () => assert.equal(harness.status(name).state, "RUNNING");

const head = (method: string, path: string, ...headers: string[]): string =>
  [`${method} /run/main/sandboxes/abused${path} HTTP/1.1`, "host: x", `authorization: Bearer ${apiKey}`, ...headers]
    .map((line) => `${line}\r\n`)
    .join("");
const upgrade = ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: eHh4"];
const wait = JSON.stringify({ command: "sleep 1000", waitForCompletion: true });
const waiting = `${head("POST", "/process", "content-type: application/json", `content-length: ${wait.length}`)}\r\n${wait}`;

/** What a connection sends before it is cut off, and whether an answer comes before that. */
const abuses: [what: string, sent: string, answers: boolean][] = [
  ["a request that is answered, on a connection kept alive", `${head("GET", "/health")}\r\n`, true],
  ["HEAD", `${head("HEAD", "/health")}\r\n`, true],
  ["a path that does not exist", `${head("GET", "/nothing")}\r\n`, true],
  ["a method that does not exist there", `${head("DELETE", "/health")}\r\n`, true],
  [
    "a body that is not JSON",
    `${head("POST", "/process", "content-type: application/json", "content-length: 1")}\r\n{`,
    true,
  ],
  [
    "half a JSON body",
    `${head("POST", "/process", "content-type: application/json", "content-length: 99")}\r\n{`,
    false,
  ],
  [
    "half an upload",
    `${head("PUT", "/filesystem/tmp/x", "content-type: multipart/form-data; boundary=b", "content-length: 999")}\r\n--b\r\n`,
    false,
  ],
  ["a port nobody listens on", `${head("GET", "/port/1/")}\r\n`, true],
  ["a port that is none", `${head("GET", "/port/0/")}\r\n`, true],
  ["half a body for a port", `${head("POST", "/port/1/", "content-length: 10")}\r\nx`, true],
  ["an upgrade to a port nobody listens on", `${head("GET", "/port/1/", ...upgrade)}\r\n`, true],
  ["an upgrade at a path without one", `${head("GET", "/health", ...upgrade)}\r\n`, true],
  ["an upgrade to something else", `${head("GET", "/port/1/", "connection: upgrade", "upgrade: h2c")}\r\n`, true],
  ["a command that is waited for", waiting, false],
  ["five of those, pipelined", waiting.repeat(5), false],
  ["rubbish after a request", `${head("GET", "/health")}\r\n\0\0\0`, true],
];

for (const [what, sent, answers] of abuses) {
  test(`the sandbox sleeps again after ${what}`, { timeout: 120_000 }, async () => {
    await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
    await harness.create("abused");
    await eventually(asleep(harness, "abused"));
    const socket = await open(harness.port);
    const answered = new Promise((resolve) => socket.once("data", resolve).once("close", resolve));
    socket.write(sent);
    if (answers) await answered;
    else await eventually(awake(harness, "abused"), { intervalMs: 1 });
    socket.destroy();
    await eventually(asleep(harness, "abused"));
  });
}

for (const [what, headers] of [
  ["a request", []],
  ["an upgrade", upgrade],
] as const) {
  test(`the sandbox sleeps again after ${what} whose caller left before it could be served`, async () => {
    await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
    const { instanceId } = await harness.create("abused");
    await eventually(asleep(harness, "abused"));
    // The listener opens before the platform is ready and holds what comes.
    await using listener = await openListener("127.0.0.1:0");
    const gone = new Promise<void>((resolve) => {
      listener.server.once("connection", (accepted: Socket) => accepted.once("close", () => resolve()));
    });
    const arrived = once(listener.server, headers.length === 0 ? "request" : "upgrade");
    const socket = await open(Number(new URL(listener.origin).port));
    socket.write(`${head("GET", "/health", ...headers)}\r\n`);
    await arrived;
    socket.resetAndDestroy();
    await gone;
    const thaws = harness.driver.count("thaw");
    listener.serve({
      controlPlane: () => assert.fail("not for the control plane"),
      edge: {
        owns: () => false,
        handle: (request, response) => harness.host.handle(instanceId, request, response),
        upgrade: (request, accepted, rest) => harness.host.upgrade(instanceId, request, accepted, rest),
      },
    });
    await new Promise((resolve) => setImmediate(resolve));
    await eventually(asleep(harness, "abused"));
    assert.equal(harness.driver.count("thaw"), thaws, "nobody was there to wake up for");
  });
}

test("who follows a log that is written keeps the sandbox awake, and it sleeps when the last one has left", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
  await harness.create("followed");
  await harness.call("followed", "POST", "/process", {
    name: "ticks",
    command: "while :; do echo tick; sleep 0.02; done",
  });
  const slept: number[] = [];
  const followers = await Promise.all([1, 2].map(() => follow(harness, "followed", "/process/ticks/logs/stream")));
  for (const follower of followers) {
    await eventually(async () => {
      const freezes = harness.driver.count("freeze");
      const silenceMs = await follower.receive(500);
      // On a slow machine the ticks may stay away for so long that it falls asleep.
      if (silenceMs > 250 && harness.driver.count("freeze") > freezes) throw new Error(`silent for ${silenceMs} ms`);
      slept.push(harness.driver.count("freeze") - freezes);
    });
    follower.leave();
  }
  assert.deepEqual(slept, [0, 0]);
  await eventually(asleep(harness, "followed"));
});

test("a keepAlive process keeps the sandbox awake until it ends", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
  await harness.create("kept");
  const started = { name: "kept", command: "sleep 1", keepAlive: true, waitForCompletion: false };
  await harness.call("kept", "POST", "/process", started);
  await eventually(asleep(harness, "kept"));
  const { completedAt } = await harness.call("kept", "GET", "/process/kept");
  assert.ok(completedAt !== undefined, "it slept only after the process had ended");
});

test("a sandbox that does not freeze goes on serving and is tried again", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20, faults: { failedFreezes: [1, 2] } });
  await harness.create("stubborn");
  await eventually(() => assert.ok(harness.driver.count("freeze") >= 2));
  await harness.call("stubborn", "GET", "/health");
  await eventually(asleep(harness, "stubborn"));
  await harness.call("stubborn", "GET", "/process");
});

test("a sandbox that does not thaw answers with an error, holds nothing, and serves the next request", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
  await harness.create("stuck");
  await eventually(asleep(harness, "stuck"));
  harness.driver.before.thaw = () => {
    throw new Error("the kernel says no");
  };
  const refused = await harness.ask("stuck", "GET", "/process");
  assert.equal(refused.status, 500);
  assert.ok(!(await refused.text()).includes("kernel"));
  harness.driver.before.thaw = undefined;
  await harness.call("stuck", "GET", "/process");
  await eventually(asleep(harness, "stuck"));
});

/** Reads a streamed answer without holding anything back. */
async function follow(harness: HostHarness, name: string, path: string) {
  const leaving = new AbortController();
  const response = await harness.ask(name, "GET", path, undefined, leaving.signal);
  const reader = response.body!.getReader();
  return {
    /** Resolves once so many bytes have come, with the longest time in which none came. */
    async receive(bytes: number): Promise<number> {
      let silenceMs = 0;
      for (let received = 0; received < bytes; ) {
        const askedMs = performance.now();
        received += (await reader.read()).value!.length;
        silenceMs = Math.max(silenceMs, performance.now() - askedMs);
      }
      return silenceMs;
    },
    leave: () => leaving.abort(),
  };
}

async function open(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}
