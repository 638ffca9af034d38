// Starts under way while the whole machine is lost, repeated with their keys on the next one: none runs twice, and nobody guesses what was not seen.
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { ProcessResponse } from "../../src/contract/sandbox-api/process.ts";
import { type Ask, sendCut } from "./cut-request.ts";
import { SpawnedSandbox, withDeadline } from "./spawned-sandbox.ts";

const rounds = Number(process.env.CATNAP_LOSS_ROUNDS ?? 8);
const workers = 16;
const attemptsMax = 20;

/** What came of a start, as it was told. */
type Told = "completed" | "unknown" | "lost";

/** In a PID namespace, so that what runs inside goes with its init. */
const guest = {
  under: ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
  endSignal: "SIGKILL",
} as const;

function askOf(key: string, directory: string): Ask {
  const command = `echo ${key} >> ran; echo out ${key}`;
  const headers = { "content-type": "application/json", "idempotency-key": key };
  const body = JSON.stringify({ command, workingDir: directory, waitForCompletion: true });
  return { method: "POST", path: "/process", headers, body };
}

async function start(sandbox: SpawnedSandbox, key: string): Promise<Told> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    await sandbox.untilUp();
    const outcome = await sendCut(sandbox.port, askOf(key, sandbox.directory), "none");
    if (outcome.kind !== "answer") continue;
    assert.equal(outcome.answer.status, 200, outcome.answer.text);
    return readTold(key, JSON.parse(outcome.answer.text) as ProcessResponse);
  }
  return assert.fail(`${key} was not answered in ${attemptsMax} attempts`);
}

function readTold(key: string, { status, exitCode, cause, stdout }: ProcessResponse): Told {
  if (status === "completed") {
    assert.deepEqual([exitCode, cause?.kind, stdout], [0, "exit", `out ${key}\n`]);
    return "completed";
  }
  assert.deepEqual([status, exitCode], ["killed", null], "an exit code that nobody saw is not reported");
  if (cause?.kind === "unknown") return "unknown";
  assert.deepEqual([cause?.kind, cause?.by], ["killed_by", "platform"]);
  return "lost";
}

test(`starts that ${rounds} losses of the machine meet run at most once, and unknown is told as unknown`, {
  timeout: 300_000,
}, async (t) => {
  await using sandbox = await SpawnedSandbox.start({ guest });
  const told = new Map<string, Told>();
  const count = (outcome: Told): number => [...told.values()].filter((found) => found === outcome).length;
  let round = 0;
  for (; round < rounds || (count("unknown") === 0 && round < 10 * rounds); round += 1) {
    let isOver = false;
    const work = async (worker: number): Promise<void> => {
      for (let index = 0; !isOver; index += 1) {
        const key = `r${round}-w${worker}-${index}`;
        told.set(key, await start(sandbox, key));
      }
    };
    const working = Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
    working.catch(() => undefined);
    await delay(randomInt(50, 300));
    await sandbox.replaceMachine();
    isOver = true;
    await withDeadline(working, 60_000, "a start is not answered after the machine was lost");
    // At once: keys are known as long as their processes are kept.
    for (const [key, outcome] of told) {
      if (key.startsWith(`r${round}-`))
        assert.equal(await start(sandbox, key), outcome, `${key} is told the same again`);
    }
  }

  const ran = new Map<string, number>();
  for (const key of readFileSync(join(sandbox.directory, "ran"), "utf8").trim().split("\n")) {
    ran.set(key, (ran.get(key) ?? 0) + 1);
  }
  for (const [key, outcome] of told) {
    const times = ran.get(key) ?? 0;
    if (outcome === "completed") assert.equal(times, 1, `${key} was told as completed`);
    else assert.ok(times <= 1, `${key} was told as ${outcome} and ran ${times} times`);
  }
  const unknownRan = [...told].filter(([key, outcome]) => outcome === "unknown" && ran.has(key)).length;
  t.diagnostic(
    `${count("completed")} completed, ${count("lost")} lost, ${count("unknown")} unknown (${unknownRan} of them ran)`,
  );
  assert.equal(sandbox.kills, round);
  assert.ok(count("unknown") > 0, "no start was under way when the machine was lost");
});
