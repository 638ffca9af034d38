// The guest's decoders against mutations of every vector, with address and undefined behaviour sanitizers watching.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { buildGuest } from "./start-guest.ts";

const iterations = 200_000;

test("200,000 mutated inputs keep every decoder inside its input", () => {
  const text = readFileSync(join(import.meta.dirname, "vectors.json"), "utf8");
  const vectors = Object.values(JSON.parse(text) as Record<string, { hex: string }[]>).flat();
  const accounts = [64, 65, 300].map((length) => `root:x:0:0\n${"a".repeat(length)}:x:1000:100::/:/bin/sh\n`);
  const seeds = [...vectors.map(({ hex }) => hex), ...accounts.map((account) => Buffer.from(account).toString("hex"))];
  const input = `${seeds.join("\n")}\n`;
  const seed = process.env.CATNAP_FUZZ_SEED ?? "1";
  const result = spawnSync(buildGuest("fuzz"), [String(iterations), seed], {
    input,
    encoding: "utf8",
    timeout: 300_000,
  });
  assert.equal(result.stderr, "");
  assert.equal(result.stdout, `${iterations + seeds.length} inputs\n`);
  assert.equal(result.status, 0);
});
