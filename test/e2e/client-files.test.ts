// The official client's whole view of files, unchanged, on a real sandbox.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { eventually } from "../eventually.ts";
import { loadClient, type ClientSandbox as Sandbox } from "./load-client.ts";

let platform: SpawnedPlatform;
let sandbox: Sandbox;

before(async () => {
  platform = await spawnPlatform({});
  const client = await loadClient(platform);
  sandbox = await client.SandboxInstance.create({ name: "files", memory: 1024 });
});

after(async () => {
  await platform[Symbol.asyncDispose]();
});

test("a tree is written at once and read back", async () => {
  const files = [
    { path: "src/index.ts", content: "export const needle = 1;\n" },
    { path: "docs/guide.md", content: "# A guide to the Needle\n" },
    { path: ".env", content: "NEEDLE=1\n" },
  ];
  await sandbox.fs.writeTree(files, "/app");
  for (const { path, content } of files) assert.equal(await sandbox.fs.read(`/app/${path}`), content);
  const listed = await sandbox.fs.ls("/app");
  assert.deepEqual(listed.subdirectories?.map(({ name }) => name).sort(), ["docs", "src"]);
});

test("files are found by pattern, ranked by name and searched for a text inside the sandbox", async () => {
  const found = await sandbox.fs.find("/app", { patterns: ["*.ts"] });
  assert.deepEqual(found.matches, [{ path: "src/index.ts", type: "file" }]);
  const ranked = await sandbox.fs.search("guide", "/app/guide");
  assert.equal(ranked.matches?.[0]?.path, "docs/guide.md");
  const grepped = await sandbox.fs.grep("needle", "/app");
  assert.deepEqual(grepped.matches?.map(({ path }) => path).sort(), [".env", "docs/guide.md", "src/index.ts"]);
  const [exact] = (await sandbox.fs.grep("needle", "/app", { caseSensitive: true })).matches ?? [];
  assert.deepEqual([exact?.path, exact?.line, exact?.column], ["src/index.ts", 1, 14]);
});

test("the platform's own programs are not the sandbox's to change", async () => {
  for (const program of ["/.catnap-init", "/.catnap-rg"]) {
    const tried = await sandbox.process.exec({
      command: `echo x > ${program} || rm -f ${program} || mv /bin/true ${program}`,
      waitForCompletion: true,
    });
    assert.notEqual(tried.exitCode, 0, program);
  }
  assert.equal((await sandbox.fs.grep("needle", "/app")).matches?.length, 3);
});

test("changes of a tree are told while they happen", async () => {
  const told: string[] = [];
  const watching = sandbox.fs.watch("/app/**", ({ op, name }) => void told.push(`${op} ${name}`), {
    withContent: false,
    ignore: ["skipped"],
  });
  try {
    await eventually(async () => {
      await sandbox.fs.write("/app/src/changed.ts", "1");
      assert.ok(told.includes("CREATE changed.ts"));
    });
    await sandbox.process.exec({
      command: "mkdir -p /app/new/deep && echo 1 > /app/new/deep/file && touch /app/skipped && rm /app/src/changed.ts",
      waitForCompletion: true,
    });
    await eventually(() => assert.ok(told.includes("CREATE file") && told.includes("REMOVE changed.ts"), told.join()));
    assert.ok(!told.some((line) => line.includes("skipped")));
  } finally {
    watching.close();
  }
});

test("a directory, a text, bytes, a large file and a copy of it are made, told and removed", async () => {
  const { fs } = sandbox;
  assert.match((await fs.mkdir("/made/deep", "0750")).message, /created/);
  assert.match((await fs.write("/made/text", "grüß\n")).message, /created/);
  assert.equal(await fs.read("/made/text"), "grüß\n");
  const bytes = randomBytes(300_000);
  await fs.writeBinary("/made/bytes", bytes);
  assert.ok(Buffer.from(await (await fs.readBinary("/made/bytes")).arrayBuffer()).equals(bytes));
  const large = randomBytes(6 * 1024 * 1024);
  await fs.writeBinary("/made/large", large);
  const text = "line\n".repeat(1_200_000);
  await fs.write("/made/large-text", text);
  assert.equal(await fs.read("/made/large-text"), text);
  const downloaded = join(mkdtempSync(join(tmpdir(), "catnap-client-")), "large");
  try {
    await fs.download("/made/large", downloaded);
    assert.ok(readFileSync(downloaded).equals(large));
    await fs.writeBinary("/made/from-disk", downloaded);
  } finally {
    rmSync(dirname(downloaded), { recursive: true });
  }
  assert.equal((await fs.cp("/made", "/it's a copy")).destination, "/it's a copy");
  const { files, subdirectories } = await fs.ls("/it's a copy");
  assert.deepEqual(
    files.map(({ name, permissions, size, owner, group }) => [name, permissions, size, owner, group]),
    [
      ["bytes", "0644", 300_000, "root", "root"],
      ["from-disk", "0644", large.length, "root", "root"],
      ["large", "0644", large.length, "root", "root"],
      ["large-text", "0644", text.length, "root", "root"],
      ["text", "0644", 7, "root", "root"],
    ],
  );
  assert.deepEqual(subdirectories, [{ name: "deep", path: "/it's a copy/deep" }]);
  await assert.rejects(fs.rm("/it's a copy"), /not empty/);
  for (const path of ["/it's a copy", "/made"]) await fs.rm(path, true);
  await assert.rejects(fs.rm("/made"), /404|not found|no such/i);
});

test("an upload in parts can be begun, repeated, completed and aborted by the client's own steps", async () => {
  const { fs } = sandbox;
  const { uploadId } = await fs["initiateMultipartUpload"]("/parts/whole", "0600");
  const [second, first] = await Promise.all([
    fs["uploadPart"](uploadId!, 2, new Blob(["second"])),
    fs["uploadPart"](uploadId!, 1, new Blob(["first "])),
  ]);
  assert.deepEqual([second.size, first.partNumber], [6, 1]);
  await fs["completeMultipartUpload"](uploadId!, [second, first]);
  assert.equal(await fs.read("/parts/whole"), "first second");
  assert.equal((await fs.ls("/parts")).files[0]?.permissions, "0600");
  const other = await fs["initiateMultipartUpload"]("/parts/never");
  assert.match((await fs["abortMultipartUpload"](other.uploadId!)).message, /aborted/);
  await assert.rejects(fs["uploadPart"](other.uploadId!, 1, new Blob(["late"])));
});

test("a tree that is watched and moved away tells no more of what happens in it under its old name", async () => {
  await sandbox.fs.writeTree([{ path: "inside/file", content: "1" }], "/moved");
  const told: string[] = [];
  const watching = sandbox.fs.watch("/moved/**", ({ op, path, name }) => void told.push(`${op} ${path}/${name}`), {
    withContent: true,
  });
  try {
    await eventually(async () => {
      await sandbox.fs.write("/moved/inside/file", String(told.length));
      assert.ok(told.some((line) => line.includes("/moved/inside/file")));
    });
    const moved = await sandbox.process.exec({
      command: "mv /moved/inside /elsewhere && touch /elsewhere/unseen /moved/seen",
      waitForCompletion: true,
    });
    assert.equal(moved.exitCode, 0);
    await eventually(() => assert.ok(told.includes("CREATE /moved/seen"), told.join()));
    assert.ok(!told.some((line) => line.includes("unseen")), told.join());
  } finally {
    watching.close();
  }
});
