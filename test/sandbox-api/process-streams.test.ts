// Streams of process output: order, completeness, both formats, clients that leave.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import type { ProcessLogs, ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

type Event = { type: string; data: string };

async function stream(json: object): Promise<{ type: string; events: Event[]; result: ProcessResponse }> {
  const headers = { accept: "text/event-stream" };
  const answer = await sandbox.ask("POST", "/process", { headers, json });
  assert.equal(answer.status, 200, answer.text);
  const events = answer.text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Event);
  const last = events.at(-1)!;
  return {
    type: answer.headers["content-type"]!,
    events,
    result: (last.type === "result" ? JSON.parse(last.data) : undefined) as ProcessResponse,
  };
}

function joined(events: Event[], type: string): string {
  return events
    .filter((event) => event.type === type)
    .map(({ data }) => data)
    .join("");
}

async function start(json: object): Promise<ProcessResponse> {
  return (await sandbox.ask("POST", "/process", { json })).json as ProcessResponse;
}

function linesOf(streamed: string, prefix: string): string {
  return streamed
    .split("\n")
    .filter((line) => line.startsWith(prefix))
    .map((line) => `${line.slice(prefix.length)}\n`)
    .join("");
}

/** A program that writes each piece once the one before has come: nothing else tells which of two streams was first. */
function stepwise(name: string, pieces: readonly ["stdout" | "stderr", string][]) {
  const flag = (index: number): string => join(sandbox.workingDir, `${name}-${index}`);
  const steps = pieces.map(([to, piece], index) => {
    const print = `printf '${piece.replaceAll("\n", "\\n")}'${to === "stderr" ? " >&2" : ""}`;
    return `${print}; until [ -e ${flag(index)} ]; do sleep 0.01; done`;
  });
  const walk = async (): Promise<void> => {
    let length = 0;
    for (const [index, [, piece]] of pieces.entries()) {
      length += piece.length;
      await eventually(async () => {
        const { stdout, stderr } = (await sandbox.ask("GET", `/process/${name}/logs`)).json as ProcessLogs;
        assert.equal(stdout.length + stderr.length, length);
      });
      writeFileSync(flag(index), "");
    }
  };
  return { command: steps.join("; "), walk };
}

async function streamOf(name: string, pieces: readonly ["stdout" | "stderr", string][]): Promise<string> {
  const { command, walk } = stepwise(name, pieces);
  await start({ name, command });
  await walk();
  return (await sandbox.ask("GET", `/process/${name}/logs/stream`)).text;
}

test("a streamed run sends its output in order and its result last", async () => {
  const { command, walk } = stepwise("ordered", [
    ["stdout", "1\n"],
    ["stdout", "2\n"],
    ["stdout", "3\n"],
    ["stderr", "e\n"],
    ["stdout", "tail"],
  ]);
  const streaming = stream({ name: "ordered", command: `${command}; exit 4`, waitForCompletion: true });
  const [{ type, events, result }] = await Promise.all([streaming, walk()]);
  assert.equal(type, "application/x-ndjson");
  assert.equal(joined(events, "stdout"), "1\n2\n3\ntail");
  assert.equal(joined(events, "stderr"), "e\n");
  assert.deepEqual(
    events.map((event) => event.type).filter((kind, index, all) => kind !== all[index - 1]),
    ["stdout", "stderr", "stdout", "result"],
  );
  assert.deepEqual(
    [result.status, result.exitCode, result.stdout, result.stderr],
    ["failed", 4, "1\n2\n3\ntail", "e\n"],
  );
});

test("the first output of a streamed run arrives while it runs", async () => {
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const body = JSON.stringify({ command: "echo first; sleep 60", name: "early" });
  const response = await sandbox.send({ method: "POST", path: "/process", headers }, body);
  const [chunk] = (await response.take(1).toArray()) as Buffer[];
  assert.equal(chunk!.toString(), '{"type":"stdout","data":"first\\n","offset":0}\n');
  await sandbox.ask("DELETE", "/process/early/kill");
});

test("characters that are cut between two writes arrive whole", async () => {
  const { events } = await stream({ command: "printf '\\303'; sleep 0.1; printf '\\251\\n'", waitForCompletion: true });
  assert.equal(joined(events, "stdout"), "é\n");
});

test("a streamed run that takes longer than its timeout ends with an error and goes on", async () => {
  const { events } = await stream({ command: "echo a; sleep 60", name: "late", waitForCompletion: true, timeout: 1 });
  assert.deepEqual(events.at(-1), { type: "error", data: "process timed out after 1 seconds" });
  assert.equal(((await sandbox.ask("GET", "/process/late")).json as ProcessResponse).status, "running");
  await sandbox.ask("DELETE", "/process/late/kill");
});

test("a run that cannot start is refused before anything is streamed", async () => {
  const headers = { accept: "text/event-stream" };
  const answer = await sandbox.ask("POST", "/process", { headers, json: { command: "true", workingDir: "/nope" } });
  assert.equal(answer.status, 422);
  assert.match(answer.text, /does not exist/);
});

test("the log stream has what was written before, then what comes, each byte once", async () => {
  const count = 20_000;
  const command = `i=0; while [ $i -lt ${count} ]; do echo "line $i"; i=$((i+1)); [ $((i % 7000)) = 0 ] && sleep 0.1; done; true`;
  const { pid } = await start({ command });
  const streams = await Promise.all([0, 1, 2].map(() => sandbox.ask("GET", `/process/${pid}/logs/stream`)));
  const expected = Array.from({ length: count }, (_, index) => `line ${index}\n`).join("");
  for (const { headers, text: streamed } of streams) {
    assert.match(headers["content-type"]!, /^text\/plain/);
    assert.equal(linesOf(streamed, "stdout:"), expected);
  }
  assert.equal((await sandbox.ask("GET", `/process/${pid}/logs/stream`)).text, streams[0]!.text);
});

test("both streams are told apart line by line", async () => {
  const streamed = await streamOf("told-apart", [
    ["stdout", "a\n"],
    ["stderr", "b\n"],
    ["stdout", "c\nd\n"],
  ]);
  assert.equal(streamed, "stdout:a\nstderr:b\nstdout:c\nstdout:d\n");
});

test("a line that grows is continued, and broken only when the other stream comes between", async () => {
  const streamed = await streamOf("growing", [
    ["stdout", "a"],
    ["stdout", "b"],
    ["stderr", "E"],
    ["stdout", "c\n"],
    ["stderr", "F\n"],
  ]);
  assert.equal(streamed, "stdout:ab\nstderr:E\nstdout:c\nstderr:F\n");
});

test("64 MiB of output keep their newest part, the rest is marked, and nothing is invented", async () => {
  const { pid } = await start({ command: "yes 0123456789abcde | head -c 67108864", waitForCompletion: true });
  const streamed = await sandbox.ask("GET", `/process/${pid}/logs/stream`);
  const [marker, ...lines] = streamed.text.trimEnd().split("\n");
  const missing = Number(/^stdout:\[\.\.\. (\d+) earlier bytes/.exec(marker!)?.[1]);
  assert.ok(missing > 0);
  // The oldest kept line may have lost its beginning.
  const kept = lines.slice(1).every((line) => line === "stdout:0123456789abcde");
  assert.ok(kept);
  const keptBytes = lines.reduce((sum, line) => sum + line.length - "stdout:".length + 1, 0);
  assert.equal(missing + keptBytes, 67_108_864);
  const { stdout, logs } = (await sandbox.ask("GET", `/process/${pid}/logs`)).json as ProcessLogs;
  assert.match(stdout, /^\[\.\.\. 62914560 earlier bytes are not shown/);
  assert.equal(stdout.length - stdout.indexOf("\n") - 1, 4 * 1024 * 1024);
  assert.equal(logs, stdout);
  const inline = (await sandbox.ask("GET", `/process/${pid}`)).json as ProcessResponse;
  assert.equal(inline.stdout!.length - inline.stdout!.indexOf("\n") - 1, 64 * 1024);
});

test("a reader that does not read holds nothing up and still gets every byte that is kept", async () => {
  const { pid } = await start({ command: "sleep 0.2; head -c 16777216 /dev/zero | tr '\\0' x" });
  const slow = await sandbox.send({ path: `/process/${pid}/logs/stream` });
  await eventually(async () => {
    assert.equal(((await sandbox.ask("GET", `/process/${pid}`)).json as ProcessResponse).status, "completed");
  });
  const hash = createHash("md5")
    .update(await text(slow))
    .digest("hex");
  const expected = createHash("md5").update("stdout:").update(Buffer.alloc(16_777_216, "x")).digest("hex");
  assert.equal(hash, expected);
});

test("a client that leaves a stream leaves no descriptor behind", async () => {
  const { pid } = await start({ command: "echo x; sleep 60" });
  const openLogs = (): number => {
    const links = readdirSync("/proc/self/fd").map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return "";
      }
    });
    return links.filter((link) => link.startsWith(sandbox.stateDir)).length;
  };
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => sandbox.send({ path: `/process/${pid}/logs/stream` })),
  );
  await Promise.all(responses.map((response) => once(response, "readable")));
  assert.equal(openLogs(), 21);
  for (const response of responses) response.destroy();
  // The one that is left is what the output is written to.
  await eventually(() => assert.equal(openLogs(), 1));
  await sandbox.ask("DELETE", `/process/${pid}/kill`);
});

test("a stream of a silent process begins at once", async () => {
  const { pid } = await start({ command: "sleep 60" });
  const followed = await sandbox.send({ path: `/process/${pid}/logs/stream` });
  assert.equal(followed.statusCode, 200);
  followed.destroy();
  const streamed = await sandbox.send(
    { method: "POST", path: "/process", headers: { accept: "text/event-stream", "content-type": "application/json" } },
    JSON.stringify({ command: "sleep 60", waitForCompletion: true }),
  );
  assert.equal(streamed.statusCode, 200);
  streamed.destroy();
  for (const { pid } of (await sandbox.ask("GET", "/process")).json as ProcessResponse[]) {
    await sandbox.ask("DELETE", `/process/${pid}/kill`);
  }
});

test("HEAD of a log stream answers at once, without a body", async () => {
  const { pid } = await start({ command: "sleep 60" });
  const answer = await sandbox.ask("HEAD", `/process/${pid}/logs/stream`);
  assert.deepEqual([answer.status, answer.body.length], [200, 0]);
  await sandbox.ask("DELETE", `/process/${pid}/kill`);
});

test("a stream goes on at any place of each of its streams, to the byte", async () => {
  await start({ command: "printf 01234; printf abcde >&2", name: "places", waitForCompletion: true });
  const places = [0, 1, 4, 5];
  for (const [out, err] of places.flatMap((out) => places.map((err) => [out, err] as const))) {
    const path = `/process/places/logs/stream?stdoutOffset=${out}&stderrOffset=${err}`;
    const answer = await sandbox.ask("GET", path, { headers: { accept: "application/x-ndjson" } });
    const events = answer.text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Event);
    const told = (type: string) =>
      events
        .filter((event) => event.type === type)
        .map(({ data }) => data)
        .join("");
    assert.deepEqual([told("stdout"), told("stderr")], ["01234".slice(out), "abcde".slice(err)], path);
  }
});
