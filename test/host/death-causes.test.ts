// What a kernel's count of kills says about the end of one process.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError } from "../../src/core/errors.ts";
import type { ProcessCount } from "../../src/host/drivers/driver.ts";
import { DeathCauses } from "../../src/host/instances/death-causes.ts";

function open() {
  const kernel = { kills: 0, reads: 0, nowMs: 0, processes: undefined as ProcessCount | undefined };
  const counters = {
    countOomKills: () => {
      kernel.reads++;
      return kernel.kills;
    },
    countProcesses: () => kernel.processes,
  };
  const causes = new DeathCauses(counters, () => kernel.nowMs);
  return { kernel, causes };
}

const killed = { signal: 9 } as const;

test("a kill counted while a process ran explains its end by SIGKILL, and one of its shell", () => {
  const { kernel, causes } = open();
  causes.started("a");
  causes.started("b");
  kernel.kills = 2;
  assert.deepEqual(causes.explain("a", killed), { signal: 9, outOfMemory: true });
  assert.deepEqual(causes.explain("a", killed), { signal: 9, outOfMemory: true });
  causes.forget("a", { signal: 9, outOfMemory: true });
  assert.deepEqual(causes.explain("b", { code: 137 }), { code: 137, outOfMemory: true });
});

test("it explains nothing else", () => {
  const { kernel, causes } = open();
  causes.started("a");
  assert.deepEqual(causes.explain("a", killed), killed);
  kernel.kills = 1;
  for (const end of [{ code: 0 }, { code: 1 }, { code: 9 }, { signal: 15 }, { signal: 11 }]) {
    assert.deepEqual(causes.explain("a", end), end);
  }
  assert.deepEqual(causes.explain("unknown", killed), killed);
});

test("a kill before a process began, one we asked for and one that explained another end are not its cause", () => {
  const { kernel, causes } = open();
  causes.started("early");
  kernel.kills = 1;
  kernel.nowMs = 1_000;
  causes.started("late");
  assert.deepEqual(causes.explain("late", killed), killed);
  causes.signalled("early", 9);
  assert.deepEqual(causes.explain("early", killed), killed);
  causes.started("one");
  causes.started("two");
  kernel.kills = 2;
  causes.forget("one", { ...killed, outOfMemory: true });
  assert.deepEqual(causes.explain("two", killed), { ...killed, outOfMemory: true });
  causes.forget("two", { ...killed, outOfMemory: true });
  causes.started("three");
  assert.deepEqual(causes.explain("three", killed), killed);
});

test("processes started together read the count once, and a restart begins anew", () => {
  const { kernel, causes } = open();
  for (let index = 0; index < 100; index++) causes.started(`p${index}`);
  assert.equal(kernel.reads, 1);
  kernel.nowMs = 100;
  causes.started("later");
  assert.equal(kernel.reads, 2);
  causes.reset();
  assert.deepEqual(causes.explain("p1", killed), killed);
});

type Counted = Partial<ProcessCount>;
const counts = (counted: Counted): ProcessCount => ({ current: 5, limit: 112, max: 128, ...counted });

/** Counts when the process starts and when it has ended, and the limit that is told. */
const limits: [what: string, before: Counted | undefined, after: Counted | undefined, told: number | undefined][] = [
  ["nothing is counted", undefined, undefined, undefined],
  ["few processes", { peak: 9 }, { peak: 20 }, undefined],
  ["few processes, without a peak", {}, {}, undefined],
  ["the limit is reached and left again", { peak: 9 }, { current: 6, peak: 112 }, 112],
  ["the limit is reached, and the others are still there", { peak: 9 }, { current: 111, peak: 112 }, 112],
  ["one less than the limit", { peak: 9 }, { current: 110, peak: 111 }, undefined],
  ["one started after its end", { peak: 9 }, { current: 111, peak: 111 }, undefined],
  ["the limit was reached before, and nobody is there now", { peak: 120 }, { current: 6, peak: 120 }, undefined],
  ["the limit was reached before, and again", { peak: 120 }, { current: 111, peak: 120 }, 112],
  ["no peak, and the others are still there", {}, { current: 111 }, 112],
  ["no peak, and one less", {}, { current: 110 }, undefined],
  ["the whole limit refused somebody", { refusals: 3, peak: 128 }, { refusals: 4, peak: 128 }, 128],
  ["the whole limit refused somebody before", { refusals: 3, peak: 128 }, { refusals: 3, peak: 128 }, undefined],
  ["counting began meanwhile", undefined, { refusals: 3, peak: 128, current: 6 }, undefined],
];

for (const [what, before, after, told] of limits) {
  test(`of a failure with ${what}, ${told === undefined ? "nothing is claimed" : "the limit is told"}`, () => {
    for (const end of [{ code: 1 }, { code: 254 }, { signal: 6 }]) {
      const { kernel, causes } = open();
      kernel.processes = before && counts(before);
      causes.started("a");
      kernel.processes = after && counts(after);
      const expected = told === undefined ? end : { ...end, processLimit: told };
      assert.deepEqual(causes.explain("a", end), expected);
      kernel.processes = counts({ peak: 10 });
      assert.deepEqual(causes.explain("a", end), expected, "asked again, it is the same");
    }
  });
}

test("success, a kill of ours and one for want of memory have nothing to do with the limit", () => {
  const { kernel, causes } = open();
  for (const token of ["a", "b", "c"]) causes.started(token);
  kernel.processes = counts({ current: 112 });
  assert.deepEqual(causes.explain("a", { code: 0 }), { code: 0 });
  causes.signalled("b", 9);
  assert.deepEqual(causes.explain("b", killed), killed);
  kernel.kills = 1;
  assert.deepEqual(causes.explain("c", killed), { ...killed, outOfMemory: true });
});

test("a start that is refused is told with the limit, another failure as it is", () => {
  const { kernel, causes } = open();
  const refused = (step: string, errno: string) =>
    new AppError("unprocessable", "fork sh: a limit is reached", { details: { step, errno } });
  const error = refused("fork", "EAGAIN");
  assert.equal(causes.explainRefusal(error), error, "nothing is counted");
  kernel.processes = counts({ peak: 100 });
  assert.equal(causes.explainRefusal(error), error, "it was refused for something else");
  for (const counted of [{ current: 128 }, { peak: 128 }, {}]) {
    kernel.processes = counts(counted);
    const told = causes.explainRefusal(error) as AppError;
    assert.match(told.message, /limit of 128 processes/);
    assert.deepEqual(told.details, { step: "fork", errno: "EAGAIN", processLimit: 128 });
  }
  for (const other of [refused("exec", "EAGAIN"), refused("fork", "ENOMEM"), new Error("fork")]) {
    assert.equal(causes.explainRefusal(other), other);
  }
});
