// Going on with what may be there at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { proceed, translateErrors } from "../../src/core/eventual.ts";
import { Timing } from "../../src/core/timing.ts";

test("what is there is gone on with at once, what is not when it comes", async () => {
  assert.equal(
    proceed(20, (value) => value + 1),
    21,
  );
  assert.equal(await proceed(Promise.resolve(20), (value) => value + 1), 21);
  assert.equal(await proceed(20, async (value) => value + 1), 21);
});

test("errors are translated whether they are thrown at once or later", async () => {
  const translate = (error: unknown): Error => new Error(`translated: ${(error as Error).message}`);
  const fail = (): never => {
    throw new Error("failed");
  };
  assert.throws(() => translateErrors(fail, translate), /^Error: translated: failed$/);
  await assert.rejects(
    async () => translateErrors(() => Promise.reject(new Error("late")), translate),
    /translated: late/,
  );
  assert.equal(
    translateErrors(() => 1, translate),
    1,
  );
});

test("a phase is timed whether its work ends at once, later or not well", async () => {
  const timing = new Timing();
  assert.equal(
    timing.measure("auth", () => 1),
    1,
  );
  await assert.rejects(
    timing.measure("store", () => Promise.reject(new Error("late"))),
    /late/,
  );
  const fail = (): number => {
    throw new Error("at once");
  };
  assert.throws(() => timing.measure("guest", fail), /at once/);
  await timing.measure("auth", async () => undefined);
  assert.match(timing.header(), /^auth;dur=[\d.]+, store;dur=[\d.]+, guest;dur=[\d.]+, total;dur=[\d.]+$/);
});
