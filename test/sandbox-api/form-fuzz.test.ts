// Broken and hostile multipart forms: whatever comes, an answer, never a crash, never half a file.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { eventually } from "../eventually.ts";
import { form } from "./form.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

const leftovers = (): string[] => readdirSync(sandbox.workingDir).filter((name) => name !== "target");

test("a form cut, doubled, or with bytes changed anywhere is answered, and the target holds the old file or a whole new one", async () => {
  const path = join(sandbox.workingDir, "target");
  const parts = fc.array(
    fc.oneof(
      fc.tuple(fc.constantFrom("permissions", "path", "x"), fc.string({ maxLength: 50 })),
      fc.uint8Array({ maxLength: 5_000 }).map((bytes) => ["file", Buffer.from(bytes), "n"] as const),
    ),
    { maxLength: 5 },
  );
  const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(parts, fc.nat(), damage, fc.boolean(), async (list, cut, changes, isCut) => {
      writeFileSync(path, "old");
      const whole = form(list);
      const body = Buffer.from(isCut ? whole.body.subarray(0, cut % (whole.body.length + 1)) : whole.body);
      for (const [place, value] of changes) if (body.length > 0) body[place % body.length] = value;
      const answer = await sandbox.ask("PUT", "/filesystem/target", { headers: whole.headers, body });
      assert.ok([200, 400, 413, 422].includes(answer.status), `${answer.status} ${answer.text}`);
      if (answer.status !== 200) assert.deepEqual(Object.keys(answer.json as object), ["error"]);
      if (answer.status === 400) assert.equal(readFileSync(path, "utf8"), "old");
      assert.deepEqual(leftovers(), []);
    }),
    { numRuns: 300 },
  );
});

test("a client that leaves in the middle of a form leaves the old file and nothing beside it", async () => {
  const path = join(sandbox.workingDir, "target");
  writeFileSync(path, "old");
  const { headers, body } = form([["file", Buffer.alloc(2_000_000, "n"), "x"]]);
  for (const bytes of [10, 200, 100_000, 1_999_000]) {
    const socket = connect(sandbox.port, "127.0.0.1");
    const type = headers["content-type"];
    socket.write(
      `PUT /filesystem/target HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`,
    );
    socket.write(body.subarray(0, bytes));
    await once(socket, "connect");
    await eventually(() => assert.equal(socket.writableLength, 0));
    socket.destroy();
  }
  await eventually(() => assert.deepEqual(leftovers(), []));
  assert.equal(readFileSync(path, "utf8"), "old");
  assert.ok(existsSync(path));
});

test("an upload that cannot be written is answered without its whole body being read", async () => {
  const whole = form([["file", Buffer.alloc(32 * 1024 * 1024), "x"]]);
  writeFileSync(join(sandbox.workingDir, "target"), "old");
  const answer = await sandbox.ask("PUT", "/filesystem/target/below", whole);
  assert.equal(answer.status, 422, answer.text);
});
