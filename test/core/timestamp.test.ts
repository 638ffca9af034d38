// Durations and points in time as text.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseDurationMs } from "../../src/core/duration.ts";
import { parseTimestampMs } from "../../src/core/timestamp.ts";

const dates = fc.date({
  min: new Date("0001-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true,
});

test("every date is read back from its text", () => {
  fc.assert(fc.property(dates, (date) => assert.equal(parseTimestampMs(date.toISOString()), date.getTime())));
});

test("a time zone says when, whatever the place", () => {
  fc.assert(
    fc.property(dates, fc.integer({ min: 0, max: 1_439 }), fc.boolean(), (date, minutes, isEast) => {
      const two = (value: number): string => String(value).padStart(2, "0");
      const zone = `${isEast ? "+" : "-"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
      const shift = (isEast ? -minutes : minutes) * 60_000;
      assert.equal(parseTimestampMs(date.toISOString().replace("Z", zone)), date.getTime() + shift);
    }),
  );
});

test("no text makes either fail, and what is read is a whole number", () => {
  const almost = fc.string({
    unit: fc.constantFrom("0", "1", "9", "-", ":", "T", "Z", ".", "+", "s", "w"),
    maxLength: 40,
  });
  fc.assert(
    fc.property(fc.oneof(fc.string(), almost), (text) => {
      for (const value of [parseTimestampMs(text), parseDurationMs(text)]) {
        assert.ok(value === undefined || Number.isSafeInteger(value), text);
      }
    }),
    { numRuns: 3_000 },
  );
});

test("days that no calendar has are not dates", () => {
  for (const day of ["2023-02-29", "2100-02-29", "2024-04-31", "2024-00-01", "2024-01-00", "2024-13-01"]) {
    assert.equal(parseTimestampMs(`${day}T00:00:00Z`), undefined, day);
  }
  assert.equal(parseTimestampMs("2024-02-29T00:00:00Z"), Date.UTC(2024, 1, 29));
  assert.equal(parseTimestampMs("2024-02-29T00:00:00.9999Z"), Date.UTC(2024, 1, 29) + 999);
});

test("durations are read back in every unit", () => {
  const units = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };
  fc.assert(
    fc.property(fc.nat(1_000_000), fc.constantFrom(...(Object.keys(units) as (keyof typeof units)[])), (count, unit) =>
      assert.equal(parseDurationMs(`${count}${unit}`), count * units[unit] * 1_000),
    ),
  );
});
