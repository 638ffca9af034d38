// A disk inside a sandbox without room: what needs some is refused and leaves the old file as it was; reading and removing go on.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { mountSmallDisk, type SmallDisk } from "../small-disk.ts";
import { form } from "./form.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
let smallDisk: SmallDisk;
let disk: string;
before(async () => {
  sandbox = await TestSandbox.start();
  smallDisk = mountSmallDisk(4, "0755");
  disk = smallDisk.path;
});
after(async () => {
  await sandbox[Symbol.asyncDispose]();
  smallDisk[Symbol.dispose]();
});

const url = (name: string, prefix = "/filesystem"): string => `${prefix}/${encodeURIComponent(join(disk, name))}`;

function assertNoRoom(answer: Answer): void {
  assert.equal(answer.status, 422, answer.text);
  assert.match((answer.json as { error: string }).error, /no space left/);
}

test("every way to write is refused with what happened, and leaves nothing but the old file", async () => {
  writeFileSync(join(disk, "kept"), "old");
  const large = randomBytes(1_000_000);
  const small = Buffer.from("small");
  smallDisk.fill();
  const writes: (() => Promise<Answer>)[] = [
    () => sandbox.ask("PUT", url("kept"), { json: { content: "new" } }),
    () => sandbox.ask("PUT", url("kept"), { json: { content: "n".repeat(500_000) } }),
    () => sandbox.ask("PUT", url("kept"), form([["file", small, "f"]])),
    () => sandbox.ask("PUT", url("kept"), form([["file", large, "f"]])),
    () => sandbox.ask("PUT", `/filesystem/tree/${disk}`, { json: { files: { kept: "new" } } }),
  ];
  for (const write of writes) {
    assertNoRoom(await write());
    assert.equal(readFileSync(join(disk, "kept"), "utf8"), "old");
    assert.deepEqual(readdirSync(disk).sort(), ["filler", "kept"]);
  }
  // Neighbours and reading go on.
  assert.equal((await sandbox.ask("PUT", "/filesystem/elsewhere", { json: { content: "x" } })).status, 200);
  assert.equal(((await sandbox.ask("GET", url("kept"))).json as { content: string }).content, "old");
  assert.equal((await sandbox.ask("DELETE", url("filler"))).status, 200);
  assert.equal((await sandbox.ask("PUT", url("kept"), form([["file", large, "f"]]))).status, 200);
  assert.ok(readFileSync(join(disk, "kept")).equals(large));
});

test("a multipart upload that finds no room at completion keeps its parts and the old file, and completes once there is room", async () => {
  writeFileSync(join(disk, "target"), "old");
  const initiated = await sandbox.ask("POST", url("target", "/filesystem-multipart/initiate"));
  const { uploadId } = initiated.json as { uploadId: string };
  const bytes = randomBytes(2_000_000);
  const part = await sandbox.ask(
    "PUT",
    `/filesystem-multipart/${uploadId}/part?partNumber=1`,
    form([["file", bytes, "f"]]),
  );
  smallDisk.fill();
  const complete = (): Promise<Answer> =>
    sandbox.ask("POST", `/filesystem-multipart/${uploadId}/complete`, { json: { parts: [part.json] } });
  for (let round = 0; round < 2; round++) {
    assertNoRoom(await complete());
    assert.equal(readFileSync(join(disk, "target"), "utf8"), "old");
    assert.ok(!readdirSync(disk).some((name) => name.startsWith(".")));
  }
  smallDisk.free();
  rmSync(join(disk, "kept"), { force: true });
  assert.equal((await complete()).status, 200);
  assert.ok(readFileSync(join(disk, "target")).equals(bytes));
});
