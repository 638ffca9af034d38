// As many parts as an upload can have, in parallel and in any order, become one file; the daemon restarts in the middle of it.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { Agent } from "node:http";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import { partNumberMax } from "../../src/contract/sandbox-api/multipart.ts";
import { form } from "./form.ts";
import { TestSandbox } from "./harness.ts";

const atOnce = 16;
const contentOf = (partNumber: number): Buffer => Buffer.from(`part ${partNumber}\n`.repeat(1 + (partNumber % 7)));

test("ten thousand parts become one file, across a restart of the daemon", async (context) => {
  await using sandbox = await TestSandbox.start();
  using agent = Object.assign(new Agent({ keepAlive: true, maxSockets: atOnce }), {
    [Symbol.dispose]() {
      agent.destroy();
    },
  });
  const target = join(sandbox.workingDir, "large");
  const initiated = await sandbox.ask("POST", `/filesystem-multipart/initiate/${encodeURIComponent(target)}`);
  const { uploadId } = initiated.json as { uploadId: string };
  const etags = new Map<number, string>();
  const send = async (partNumbers: Iterator<number>): Promise<void> => {
    for (let next = partNumbers.next(); !next.done; next = partNumbers.next()) {
      const { headers, body } = form([["file", contentOf(next.value), "blob"]]);
      const path = `/filesystem-multipart/${uploadId}/part?partNumber=${next.value}`;
      const response = await sandbox.send({ method: "PUT", path, headers, agent }, body);
      assert.equal(response.statusCode, 200);
      etags.set(next.value, ((await json(response)) as { etag: string }).etag);
    }
  };
  // Every number once, far apart from the one before.
  const numbers = Array.from({ length: partNumberMax }, (_, index) => 1 + ((index * 7_919) % partNumberMax));
  const [before, after] = [numbers.slice(0, partNumberMax / 2).values(), numbers.slice(partNumberMax / 2).values()];
  const rssBefore = process.memoryUsage.rss();
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: atOnce }, () => send(before)));
  await sandbox.restart();
  await Promise.all(Array.from({ length: atOnce }, () => send(after)));
  const uploadedAt = performance.now();
  const { json: listed } = await sandbox.ask("GET", `/filesystem-multipart/${uploadId}/parts`);
  const { parts } = listed as { parts: { partNumber: number; etag: string }[] };
  assert.deepEqual(
    parts.map(({ partNumber }) => partNumber),
    Array.from({ length: partNumberMax }, (_, index) => index + 1),
  );
  assert.equal(statSync(join(sandbox.multipartRoot, uploadId)).mode & 0o777, 0o700);
  const named = numbers.map((partNumber) => ({ partNumber, etag: etags.get(partNumber)! }));
  const completed = await sandbox.ask("POST", `/filesystem-multipart/${uploadId}/complete`, { json: { parts: named } });
  assert.equal(completed.status, 200, completed.text);
  const expected = createHash("sha256");
  for (let partNumber = 1; partNumber <= partNumberMax; partNumber++) expected.update(contentOf(partNumber));
  assert.equal(createHash("sha256").update(readFileSync(target)).digest("hex"), expected.digest("hex"));
  assert.ok(!existsSync(join(sandbox.multipartRoot, uploadId)));
  const seconds = (from: number, to: number): string => ((to - from) / 1_000).toFixed(1);
  const grownMb = Math.round((process.memoryUsage.rss() - rssBefore) / 1024 / 1024);
  context.diagnostic(
    `uploaded in ${seconds(startedAt, uploadedAt)} s, joined in ${seconds(uploadedAt, performance.now())} s; this program grew by ${grownMb} MiB`,
  );
});
