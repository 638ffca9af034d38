// Places for file operations: never more at once than there are, first come first served, and nobody waits for ever.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Slots } from "../../src/host/guest/slots.ts";

test("a place given back goes to who waited longest", async () => {
  const slots = new Slots({ slots: 2, waitingMax: 10, waitMs: 10_000, refusal: "full" });
  const first = await slots.take();
  await slots.take();
  const order: string[] = [];
  const third = slots.take().then((slot) => {
    order.push("third");
    return slot;
  });
  const fourth = slots.take().then(() => order.push("fourth"));
  first[Symbol.dispose]();
  (await third)[Symbol.dispose]();
  await fourth;
  assert.deepEqual(order, ["third", "fourth"]);
});

test("a place is given back once, however often it is disposed", async () => {
  const slots = new Slots({ slots: 1, waitingMax: 10, waitMs: 20, refusal: "full" });
  const slot = await slots.take();
  slot[Symbol.dispose]();
  slot[Symbol.dispose]();
  await slots.take();
  await assert.rejects(slots.take(), { code: "rate_limited" });
});

test("who waits too long, is one too many or gives up leaves no place behind or taken", async () => {
  const slots = new Slots({ slots: 1, waitingMax: 2, waitMs: 50, refusal: "full" });
  const slot = await slots.take();
  const abort = new AbortController();
  const waits = slots.take();
  const aborted = slots.take(abort.signal);
  await assert.rejects(slots.take(), { code: "rate_limited" });
  abort.abort(new Error("given up"));
  await assert.rejects(aborted, /given up/);
  await assert.rejects(waits, { code: "rate_limited" });
  slot[Symbol.dispose]();
  const next = await slots.take();
  next[Symbol.dispose]();
  await slots.take(new AbortController().signal);
});
