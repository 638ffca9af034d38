// The bound on content that stands in memory whole.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryBudget } from "../../src/sandbox-api/memory-budget.ts";

const waiting = { waitingMax: 2, waitMs: 60_000 };

test("what fits is taken at once, the rest waits its turn in order", async () => {
  const budget = new MemoryBudget({ ...waiting, totalBytes: 100 });
  const first = await budget.take(60);
  const order: string[] = [];
  const large = budget.take(80).then((taken) => {
    order.push("large");
    return taken;
  });
  const small = budget.take(20).then((taken) => {
    order.push("small");
    return taken;
  });
  assert.equal(budget.hasFree(1), false);
  await assert.rejects(budget.take(1), { code: "unavailable" });
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  for (const taken of await Promise.all([large, small])) taken[Symbol.dispose]();
  assert.deepEqual(order, ["large", "small"]);
  assert.ok(budget.hasFree(100));
});

test("more than everything takes everything", async () => {
  const budget = new MemoryBudget({ ...waiting, totalBytes: 10 });
  using _all = await budget.take(1_000);
  assert.equal(budget.hasFree(1), false);
});

test("what a sandbox takes is taken from all, and given back when the others refuse", async () => {
  const all = new MemoryBudget({ totalBytes: 100, waitingMax: 0, waitMs: 60_000 });
  const own = new MemoryBudget({ ...waiting, totalBytes: 80, parent: all });
  const other = new MemoryBudget({ ...waiting, totalBytes: 80, parent: all });
  const taken = await own.take(80);
  assert.equal(other.hasFree(30), false);
  await assert.rejects(other.take(30), { code: "unavailable" });
  assert.ok(other.hasFree(20));
  taken[Symbol.dispose]();
  assert.ok(other.hasFree(80) && own.hasFree(80));
});

test("waiting ends with a refusal, and those behind are served", async () => {
  const budget = new MemoryBudget({ totalBytes: 10, waitingMax: 5, waitMs: 20 });
  using _held = await budget.take(5);
  const large = assert.rejects(budget.take(10), { code: "unavailable" });
  const small = budget.take(5);
  await large;
  (await small)[Symbol.dispose]();
});
