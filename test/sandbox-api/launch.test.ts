// Starts whose answer is lost: repeated under the same token in the same machine, never in another one when they have a key.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { AppError } from "../../src/core/errors.ts";
import type { Machine } from "../../src/sandbox-api/machine.ts";
import { Processes } from "../../src/sandbox-api/processes/processes.ts";
import { log, stateKey } from "./harness.ts";

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "launch-"));
});
afterEach(() => rmSync(stateDir, { recursive: true }));

const request = {
  name: "one",
  command: "true",
  argv: ["true"],
  workingDir: "/",
  environment: {},
  keepAlive: false,
  timeoutMs: undefined,
};
const key = { fingerprint: "key", request: "request" };

/** A guest whose first answers to a spawn are lost; `onLost` is what happens to the machine then. */
function open(lostAnswers: number, onLost: (machine: { startCount: number }) => void) {
  const tokens: string[] = [];
  const machine = { stateDir, stateKey, startCount: 0, isAsleep: false, guest: {} };
  machine.guest = {
    files: { stat: async () => ({}) },
    spawn: async ({ token }: { token: string }) => {
      tokens.push(token);
      if (tokens.length > lostAnswers) return { pid: 7 };
      onLost(machine);
      throw new AppError("unavailable", "The connection broke.");
    },
  };
  return { tokens, processes: new Processes(machine as unknown as Machine, log) };
}

test("in the same machine the start is repeated under its token", async () => {
  const { tokens, processes } = open(2, () => undefined);
  const { process } = await processes.start(request, key);
  assert.deepEqual([process.record.phase, process.record.pid, tokens.length], ["running", 7, 3]);
  assert.equal(new Set(tokens).size, 1);
  await processes[Symbol.asyncDispose]();
});

test("when the answers stay away the key goes on with the same token later", async () => {
  const { tokens, processes } = open(3, () => undefined);
  await assert.rejects(processes.start(request, key), { code: "unavailable" });
  const { process, isRepeated } = await processes.start(request, key);
  assert.deepEqual([process.record.phase, isRepeated, tokens.length], ["running", true, 4]);
  assert.equal(new Set(tokens).size, 1);
  await processes[Symbol.asyncDispose]();
});

test("when the machine is another one a start with a key is not repeated, now or later", async () => {
  const { tokens, processes } = open(1, (machine) => {
    machine.startCount += 1;
  });
  for (let time = 0; time < 2; time += 1) {
    const { process } = await processes.start(request, key);
    const { phase, status, exitCode, cause } = process.record;
    assert.deepEqual([phase, status, exitCode, cause?.kind], ["ended", "killed", undefined, "unknown"]);
  }
  assert.equal(tokens.length, 1);
  await processes[Symbol.asyncDispose]();
});

test("a machine that is lost while the start is under way leaves it to the start", async () => {
  const lost = Promise.withResolvers<void>();
  const { tokens, processes } = open(1, (machine) => {
    machine.startCount += 1;
    lost.resolve(processes.guestLost());
  });
  const { process } = await processes.start(request, key);
  await lost.promise;
  assert.deepEqual([process.record.cause?.kind, tokens.length], ["unknown", 1]);
  await processes[Symbol.asyncDispose]();
});
