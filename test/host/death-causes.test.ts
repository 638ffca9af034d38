// What a kernel's count of kills says about the end of one process.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DeathCauses } from "../../src/host/instances/death-causes.ts";

function open() {
  const kernel = { kills: 0, reads: 0, nowMs: 0 };
  const causes = new DeathCauses(
    () => {
      kernel.reads++;
      return kernel.kills;
    },
    () => kernel.nowMs,
  );
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
