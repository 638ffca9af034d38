// Background work runs when poked, never twice at once, and goes on after whatever it throws.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createLogger } from "../../src/core/log.ts";
import { startLoop } from "../../src/core/loop.ts";

const log = createLogger("silent");
const hour = 3_600_000;

test("work that throws before its first await rejects that run, and the next one happens", async () => {
  let runs = 0;
  const work = (): Promise<void> => {
    runs += 1;
    if (runs <= 2) throw new Error(`run ${runs}`);
    return Promise.resolve();
  };
  await using loop = startLoop({ name: "test", intervalMs: hour, log, work });
  await assert.rejects(loop.run(), /run 1/);
  loop.poke();
  await turn();
  await loop.run();
  assert.equal(runs, 3);
});

test("pokes during a run lead to one more run after it", async () => {
  let runs = 0;
  let atOnce = 0;
  const going = Promise.withResolvers<void>();
  const work = async (): Promise<void> => {
    runs += 1;
    atOnce += 1;
    assert.equal(atOnce, 1);
    await going.promise;
    atOnce -= 1;
  };
  await using loop = startLoop({ name: "test", intervalMs: hour, log, work });
  const first = loop.run();
  loop.poke();
  const last = loop.run();
  loop.poke();
  going.resolve();
  await Promise.all([first, last]);
  assert.equal(runs, 2);
});

test("a loop that is being disposed of tells the run that is under way, waits for it and begins no other", async () => {
  let runs = 0;
  let ended = false;
  const loop = startLoop({
    name: "test",
    intervalMs: hour,
    log,
    work: async (signal) => {
      runs += 1;
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      ended = true;
    },
  });
  loop.poke();
  loop.poke();
  await loop[Symbol.asyncDispose]();
  assert.ok(ended);
  await loop.run();
  assert.equal(runs, 1);
});

test("the first run comes when it is asked for, the others at their interval", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let runs = 0;
  const work = async (): Promise<void> => void runs++;
  const runsAfter = async (ms: number): Promise<number> => {
    context.mock.timers.tick(ms);
    await turn();
    return runs;
  };
  {
    await using _loop = startLoop({ name: "test", intervalMs: hour, firstAfterMs: 1_000, log, work });
    assert.deepEqual([await runsAfter(999), await runsAfter(1)], [0, 1]);
    assert.deepEqual([await runsAfter(hour - 1_001), await runsAfter(1), await runsAfter(hour)], [1, 2, 3]);
  }
  {
    await using _loop = startLoop({ name: "test", intervalMs: hour, firstAfterMs: 1_000, log, work });
  }
  assert.equal(await runsAfter(2 * hour), 3);
});
