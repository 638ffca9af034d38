// Removing pulled images: only what nobody needs goes, and whoever comes at the same moment gets the image whole.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { startRegistry, type TestRegistry } from "./registry.ts";
import { assertNoWork, makeImageStore } from "./support.ts";

let registry: TestRegistry;
before(async () => {
  registry = await startRegistry();
});
after(() => registry[Symbol.asyncDispose]());

const nobody = (): boolean => false;
const push = (name: string, content = name) => registry.push(name, { layers: [[{ path: "file", content }]] });

test("a removed image is gone from disk and list, and is pulled again when asked for", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const name = await push("gone/app:1");
  const image = await images.resolve(name);
  await turn();
  const [described] = await images.describeAll();
  assert.deepEqual([described?.name, described?.kind], [name, "pulled"]);
  assert.ok(described!.sizeBytes! >= 4096);
  assert.ok(Math.abs(Date.parse(described!.updatedAt) - Date.now()) < 60_000);

  assert.equal(await images.remove(name, nobody), "removed");
  assert.equal(existsSync(image.rootDir), false);
  assert.equal(images.find(name), undefined);
  assert.deepEqual(await images.describeAll(), []);
  assert.deepEqual(readdirSync(join(store.imageDir, "references")), []);
  await assertNoWork(store.imageDir);
  assert.equal(await images.remove(name, nobody), "unknown");
  assert.equal((await images.resolve(name)).digest, image.digest);
  assert.ok(existsSync(join(image.rootDir, "file")));
});

test("what an instance uses, or one being made holds, stays", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const name = await push("used/app:1");
  const image = await images.resolve(name);
  await turn();
  assert.equal(await images.remove(name, ({ digest }) => digest === image.digest), "in_use");
  const holds = [images.hold(image), images.hold(image)];
  holds[0]![Symbol.dispose]();
  holds[0]![Symbol.dispose]();
  await turn();
  assert.equal(await images.remove(name, nobody), "in_use");
  assert.ok(existsSync(image.rootDir));
  holds[1]![Symbol.dispose]();
  await turn();
  assert.equal(await images.remove(name, nobody), "removed");
});

test("content that has another name loses only the name", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const first = await push("twins/a:1");
  const names = [first, await registry.copy("twins/a:1", "twins/b:1")];
  const [one, other] = [await images.resolve(names[0]!), await images.resolve(names[1]!)];
  await turn();
  assert.equal(one.digest, other.digest);
  // Even in use: the files stay.
  assert.equal(await images.remove(names[0]!, () => true), "removed");
  assert.equal(images.find(names[0]!), undefined);
  assert.ok(existsSync(other.rootDir));
  assert.equal(await images.remove(names[1]!, nobody), "removed");
  assert.equal(existsSync(other.rootDir), false);
});

test("platform images and names that are none are unknown to it", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  for (const name of ["blaxel/base-image:latest", "no such name", "../../etc", ""]) {
    assert.equal(await images.remove(name, nobody), "unknown", name);
  }
});

test("another platform on the same images keeps all of them, until its data directory is gone", async () => {
  await using store = await makeImageStore();
  const otherDataDir = await mkdtemp(join(tmpdir(), "catnap-other-"));
  try {
    await using images = await store.open({ insecureRegistries: [registry.address], dataDir: store.imageDir });
    const name = await push("shared/app:1");
    await images.resolve(name);
    await turn();
    // It does not run: its sleeping sandboxes need the files all the same.
    await (await store.open({ dataDir: otherDataDir }))[Symbol.asyncDispose]();
    assert.equal(await images.remove(name, nobody), "in_use");
    rmSync(otherDataDir, { recursive: true });
    assert.equal(await images.remove(name, nobody), "removed");
  } finally {
    rmSync(otherDataDir, { recursive: true, force: true });
  }
});

test("whoever takes an image while it is being removed has it whole", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const name = await push("race/app:1");
  const outcomes = new Set<string>();
  const take = async (turns: number): Promise<void> => {
    for (let count = 0; count < turns; count += 1) await turn();
    const image = images.find(name) ?? (await images.resolve(name));
    using _held = images.hold(image);
    for (let count = 0; count < 5; count += 1) {
      assert.ok(existsSync(join(image.rootDir, "file")), "a held image has lost its files");
      await turn();
    }
  };
  const remove = async (): Promise<void> => void outcomes.add(await images.remove(name, nobody));
  for (let round = 0; round < 12; round += 1) {
    if (round % 2 === 0) await images.resolve(name);
    await Promise.all([take(0), remove(), take(round % 4), remove(), take(3)]);
    await turn();
    await remove();
  }
  assert.deepEqual([...outcomes].sort(), ["in_use", "removed", "unknown"]);
  await assertNoWork(store.imageDir);
});

test("a removal that died half-way is finished by the next start", async () => {
  await using store = await makeImageStore();
  await (await store.open())[Symbol.asyncDispose]();
  const left = join(store.imageDir, "pulls/work/999999999-1-abcdef/discarded");
  mkdirSync(left, { recursive: true });
  writeFileSync(join(left, "file"), "");
  await using _images = await store.open();
  await assertNoWork(store.imageDir);
});
