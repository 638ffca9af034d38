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

/** Everybody's turn to go on has come. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("one signal that ends a holder's work and a waiter's patience in the same turn loses no place", async () => {
  for (const isHolderFirst of [true, false]) {
    const slots = new Slots({ slots: 1, waitingMax: 10, waitMs: 10_000, refusal: "full" });
    const holder = await slots.take();
    const abort = new AbortController();
    const giveBack = (): void => abort.signal.addEventListener("abort", () => holder[Symbol.dispose]());
    if (isHolderFirst) giveBack();
    const waiting = slots.take(abort.signal).catch(() => undefined);
    const patient = slots.take();
    if (!isHolderFirst) giveBack();
    abort.abort();
    (await waiting)?.[Symbol.dispose]();
    (await patient)[Symbol.dispose]();
    (await slots.take())[Symbol.dispose]();
  }
});

/** The same sequence for the same seed, so that a failure can be looked at. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("whatever is taken, given back and given up in whatever order, no place is lost and none is there twice", async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = createRandom(seed);
    const slots = 1 + random(3);
    const place = new Slots({ slots, waitingMax: 6, waitMs: 10_000, refusal: "full" });
    const held: Disposable[] = [];
    const aborts = Array.from({ length: 4 }, () => new AbortController());
    let takes = 0;
    const take = (signal?: AbortSignal): void => {
      takes++;
      const taken = (slot: Disposable): void => {
        held.push(slot);
        assert.ok(held.length <= slots, `seed ${seed}: ${held.length} of ${slots} places are taken`);
        // Whoever is told to stop gives back at once.
        signal?.addEventListener("abort", () => giveBack(slot), { once: true });
        if (signal?.aborted) giveBack(slot);
      };
      void place
        .take(signal)
        .then(taken, (error: Error) => assert.ok(/full|given up/.test(error.message), error))
        .finally(() => takes--);
    };
    const giveBack = (slot = held[random(held.length)]): void => {
      if (slot === undefined || !held.includes(slot)) return;
      held.splice(held.indexOf(slot), 1);
      slot[Symbol.dispose]();
    };
    const steps = [
      () => take(),
      () => take(aborts[random(4)]!.signal),
      () => giveBack(),
      () => {
        aborts.splice(random(4), 1)[0]!.abort(new Error("given up"));
        aborts.push(new AbortController());
      },
    ];
    for (let step = 0; step < 60; step++) {
      steps[random(steps.length)]!();
      if (random(3) === 0) await settle();
    }
    for (const abort of aborts) abort.abort(new Error("given up"));
    for (let round = 0; takes > 0 || held.length > 0; round++) {
      assert.ok(round < 100, `seed ${seed}: ${takes} wait, ${held.length} hold a place, and nobody gets on`);
      await settle();
      giveBack();
    }
    for (let free = 0; free < slots; free++) await place.take(AbortSignal.timeout(5_000));
    await assert.rejects(place.take(AbortSignal.abort(new Error("given up"))), /given up/);
  }
});
