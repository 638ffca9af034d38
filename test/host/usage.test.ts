// When an instance counts as used: pure, on a clock of the test's own.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Usage } from "../../src/host/instances/usage.ts";

let nowMs = 0;
let uses = 0;
let usage: Usage;
beforeEach(() => {
  nowMs = 5_000;
  uses = 0;
  usage = new Usage(
    () => uses++,
    () => nowMs,
  );
});

test("it is idle when nobody has used it for the idle timeout, to the millisecond", () => {
  assert.equal(usage.isIdle(1_000), false, "being made is the first use");
  nowMs += 999;
  assert.equal(usage.isIdle(1_000), false);
  nowMs += 1;
  assert.equal(usage.isIdle(1_000), true);
  usage.used();
  assert.equal(usage.isIdle(1_000), false);
  assert.equal(uses, 1);
});

test("a hold is in use however long it lasts, and its release begins the idle timeout anew", () => {
  const hold = usage.hold();
  nowMs += 1_000_000;
  assert.deepEqual([usage.isHeld, usage.isPresent, usage.isIdle(1_000)], [true, true, false]);
  hold[Symbol.dispose]();
  assert.deepEqual([usage.isHeld, usage.isPresent, usage.isIdle(1_000)], [false, false, false]);
  nowMs += 1_000;
  assert.equal(usage.isIdle(1_000), true);
  assert.equal(uses, 2);
});

test("what is released twice is released once, of holds and of connections", () => {
  const [one, two] = [usage.hold(), usage.hold()];
  one[Symbol.dispose]();
  one[Symbol.dispose]();
  assert.equal(usage.isHeld, true, "the second hold is still there");
  two[Symbol.dispose]();
  assert.equal(usage.isHeld, false);
  const connection = usage.connect(() => 0);
  connection[Symbol.dispose]();
  const usesBefore = uses;
  connection[Symbol.dispose]();
  assert.equal(uses, usesBefore);
});

test("an awaited connection is in use at every look, a silent one only at the first", () => {
  let carried: number | undefined;
  using _connection = usage.connect(() => carried);
  assert.deepEqual([usage.look(), usage.look()], [true, true]);
  carried = 7;
  assert.deepEqual([usage.look(), usage.look(), usage.look()], [true, false, false]);
  carried = 8;
  assert.deepEqual([usage.look(), usage.look()], [true, false]);
  carried = 7;
  assert.equal(usage.look(), true, "any change is something carried");
  assert.deepEqual([usage.isHeld, usage.isPresent], [false, true]);
});

test("each connection is asked at each look, whatever the others have carried", () => {
  const asked: string[] = [];
  const follow = (name: string) =>
    usage.connect(() => {
      asked.push(name);
      return undefined;
    });
  using _one = follow("one");
  using _two = follow("two");
  usage.look();
  assert.deepEqual(asked, ["one", "two"]);
});

test("a connection has half a second to answer, however short the idle timeout", () => {
  const connection = usage.connect(() => 0);
  nowMs += 499;
  assert.equal(usage.isIdle(20), false);
  nowMs += 1;
  assert.equal(usage.isIdle(20), true);
  assert.equal(usage.isIdle(501), false, "a longer timeout stays what it is");
  connection[Symbol.dispose]();
  nowMs += 20;
  assert.equal(usage.isIdle(20), true, "without one, the timeout alone counts");
});

test("what is postponed waits for another idle timeout, and nobody has used it", () => {
  nowMs += 1_000;
  usage.postpone();
  assert.equal(usage.isIdle(1_000), false);
  nowMs += 1_000;
  assert.equal(usage.isIdle(1_000), true);
  assert.equal(uses, 0);
});
