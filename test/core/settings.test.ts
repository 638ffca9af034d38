// Durations in settings: the specification's units and milliseconds, nothing else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readDurationMs } from "../../src/core/settings.ts";

const read = (text: string): number => readDurationMs({ CATNAP_X: text }, "CATNAP_X", "7s");

test("durations are numbers with a unit", () => {
  const texts = ["20ms", "15s", "2m", "1h", "7d", "1w", ""];
  assert.deepEqual(texts.map(read), [20, 15_000, 120_000, 3_600_000, 604_800_000, 604_800_000, 7_000]);
});

for (const text of [
  "0s",
  "0ms",
  "15",
  "s",
  "1.5s",
  "-1s",
  "15 s",
  "15S",
  "15s,",
  "1000000000000000ms",
  "99999999999w",
]) {
  test(`"${text}" is refused, without being repeated`, () => {
    assert.throws(() => read(text), { code: "invalid_request", message: /^CATNAP_X must be a duration such as/ });
  });
}
