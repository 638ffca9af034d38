// The official client's whole view of files, unchanged, on a real sandbox: trees, searches and watching.
import assert from "node:assert/strict";
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
