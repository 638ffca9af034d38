// What nobody has used for the retention time is removed, nothing else is, and whoever wants it again gets it again.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { idRange } from "../../src/host/images/id-range.ts";
import type { Images } from "../../src/host/images/images.ts";
import { startRegistry, type TestRegistry } from "./registry.ts";
import { assertNoWork, type ImageStore, makeImageStore } from "./support.ts";

const retentionMs = 1_000_000;
const startMs = Date.now();
const digests = { one: "1".repeat(64), two: "2".repeat(64) };

/** Looks at the images at a moment after the start. */
function collect(images: Images, afterMs: number, more: Partial<Parameters<Images["collect"]>[0]> = {}) {
  return images.collect({
    retentionMs,
    isUsed: () => false,
    isWarm: () => false,
    forgetWarm: async () => undefined,
    signal: AbortSignal.timeout(60_000),
    nowMs: startMs + afterMs,
    ...more,
  });
}

function addContent({ imageDir }: ImageStore, ...names: string[]): void {
  for (const name of names) {
    mkdirSync(join(imageDir, "rootfs", name, "bin"), { recursive: true });
    writeFileSync(join(imageDir, "rootfs", name, "bin/program"), "x");
  }
}

const contents = ({ imageDir }: ImageStore): string[] => readdirSync(join(imageDir, "rootfs")).sort();
const marks = ({ imageDir }: ImageStore): string[] => readdirSync(join(imageDir, "used")).sort();

let registry: TestRegistry;
before(async () => {
  registry = await startRegistry();
});
after(() => registry[Symbol.asyncDispose]());

test("content goes when the retention time is over since it was first seen, and leaves nothing", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  addContent(store, digests.one);
  assert.deepEqual(await collect(images, 0), []);
  assert.deepEqual(await collect(images, retentionMs - 1), []);
  assert.deepEqual(contents(store), [digests.one]);
  assert.deepEqual(await collect(images, retentionMs + 1), [digests.one]);
  assert.deepEqual([contents(store), await collect(images, retentionMs + 2), marks(store)], [[], [], []]);
  await assertNoWork(store.imageDir);
});

test("use begins the retention time anew, also a short one between two looks, and is remembered over a restart", async () => {
  await using store = await makeImageStore();
  {
    await using images = await store.open();
    addContent(store, digests.one, digests.two);
    await collect(images, 0);
    await collect(images, retentionMs - 10, { isUsed: (digest) => digest === digests.one });
    const rootDir = join(store.imageDir, "rootfs", digests.two);
    const image = { name: "x", digest: digests.two, rootDir, environment: {}, workingDir: "/", homeDir: "/" };
    images.hold(image)[Symbol.dispose]();
    await turn();
    assert.deepEqual(await collect(images, retentionMs), []);
  }
  await using images = await store.open();
  assert.deepEqual(await collect(images, 2 * retentionMs - 11), []);
  assert.deepEqual(await collect(images, 2 * retentionMs - 5), [digests.one]);
  assert.deepEqual(await collect(images, 2 * retentionMs + 5), [digests.two]);
});

test("what is held, used or made ready at the last moment stays", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  addContent(store, digests.one);
  await collect(images, 0);
  let isUsed = false;
  const comesLate = async (): Promise<void> => {
    isUsed = true;
  };
  assert.deepEqual(await collect(images, retentionMs + 1, { isUsed: () => isUsed, forgetWarm: comesLate }), []);
  assert.deepEqual(await collect(images, retentionMs + 1, { isWarm: () => true }), []);
  assert.deepEqual(contents(store), [digests.one]);
  assert.deepEqual(await collect(images, retentionMs + 1), [digests.one]);
});

test("instances made ahead are removed first", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  addContent(store, digests.one);
  await collect(images, 0);
  const warm = new Set([digests.one]);
  const forgetWarm = async (digest: string): Promise<void> => void warm.delete(digest);
  await collect(images, retentionMs - 1, { forgetWarm });
  assert.equal(warm.size, 1, "and not before their image goes");
  const isWarm = (digest: string): boolean => warm.has(digest);
  assert.deepEqual(await collect(images, retentionMs + 1, { isWarm, forgetWarm }), [digests.one]);
});

test("a platform image stays, what it was before it was built anew goes", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  addContent(store, digests.one, digests.two);
  const record = {
    name: "base",
    aliases: [],
    idRangeStart: idRange.start,
    environment: {},
    workingDir: "/",
    homeDir: "/",
  };
  writeFileSync(join(store.imageDir, "platform/base.json"), JSON.stringify({ ...record, digest: digests.two }));
  await collect(images, 0);
  assert.deepEqual(await collect(images, retentionMs + 1), [digests.one]);
  assert.deepEqual(contents(store), [digests.two]);
});

test("what is no content is left alone", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  addContent(store, "somebodys-folder", digests.one.slice(1));
  await collect(images, 0);
  assert.deepEqual(await collect(images, retentionMs + 1), []);
  assert.equal(contents(store).length, 2);
});

test("a pulled image goes with all its names and is pulled again when it is wanted", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const first = await registry.push("lately/a:1", { layers: [[{ path: "file", content: "lately" }]] });
  const second = await registry.copy("lately/a:1", "lately/b:1");
  const image = await images.resolve(first);
  await images.resolve(second);
  await turn();
  await collect(images, 0);
  assert.deepEqual(await collect(images, retentionMs + 1), [image.digest]);
  assert.deepEqual([images.find(first), images.find(second), await images.describeAll()], [undefined, undefined, []]);
  assert.deepEqual(readdirSync(join(store.imageDir, "references")), []);
  assert.equal((await images.resolve(second)).digest, image.digest);
  assert.ok(existsSync(join(image.rootDir, "file")));
});

/** A directory that is mounted can be neither moved nor removed; it is unmounted wherever it has been moved to. */
function holdBusy({ imageDir }: ImageStore, path: string): Disposable {
  execFileSync("mount", ["--bind", path, path]);
  return {
    [Symbol.dispose]() {
      const mounted = readFileSync("/proc/mounts", "utf8")
        .split("\n")
        .map((line) => line.split(" ")[1] ?? "");
      for (const found of mounted) if (found.startsWith(imageDir)) execFileSync("umount", [found]);
    },
  };
}

for (const [what, busy] of [
  ["moved", "."],
  ["removed", "bin"],
] as const) {
  test(`an image that cannot be ${what} keeps no other, is told once and goes when it can`, async () => {
    await using store = await makeImageStore();
    await using images = await store.open();
    addContent(store, digests.one, digests.two);
    await collect(images, 0);
    const warnings = () => store.logged.filter(({ level }) => level >= 40).map(({ digest }) => digest);
    {
      using _busy = holdBusy(store, join(store.imageDir, "rootfs", digests.one, busy));
      assert.deepEqual(await collect(images, retentionMs + 1), [digests.two]);
      assert.deepEqual(warnings(), [digests.one]);
      assert.deepEqual(await collect(images, retentionMs + 2), []);
      assert.equal(warnings().length, 1);
      await using _next = await store.open();
    }
    await collect(images, retentionMs + 3);
    assert.deepEqual(contents(store), []);
    await assertNoWork(store.imageDir);
  });
}

test("one image whose instances made ahead cannot be removed keeps no other", async () => {
  await using store = await makeImageStore();
  await using images = await store.open();
  addContent(store, digests.one, digests.two);
  await collect(images, 0);
  const forgetWarm = async (digest: string): Promise<void> => {
    if (digest === digests.one) throw new Error("it does not end");
  };
  assert.deepEqual(await collect(images, retentionMs + 1, { forgetWarm }), [digests.two]);
  assert.deepEqual(await collect(images, retentionMs + 1), [digests.one]);
});

test("what a process that is gone left, and cannot be removed, keeps no platform from starting", async () => {
  await using store = await makeImageStore();
  const left = join(store.imageDir, "pulls/work/1-1-abcdef");
  for (const dir of [left, `${left}2`]) mkdirSync(join(dir, "discarded"), { recursive: true });
  {
    using _busy = holdBusy(store, left);
    await using _images = await store.open();
    assert.deepEqual(readdirSync(join(store.imageDir, "pulls/work")), [basename(left)]);
  }
  await using _images = await store.open();
  await assertNoWork(store.imageDir);
});

test("a name whose record somebody removed is shown no more, and hides no other", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const first = await registry.push("kept/a:1", { layers: [[{ path: "file", content: "kept" }]] });
  const second = await registry.copy("kept/a:1", "kept/b:1");
  for (const name of [first, second]) await images.resolve(name);
  const [record] = readdirSync(join(store.imageDir, "references"));
  rmSync(join(store.imageDir, "references", record!));
  assert.equal((await images.describeAll()).length, 1);
});

test("another platform on the same images keeps all of them; one that is long gone is forgotten", async () => {
  await using store = await makeImageStore();
  const otherDataDir = await mkdtemp(join(tmpdir(), "catnap-other-"));
  const users = join(store.imageDir, "users");
  try {
    await using images = await store.open({ dataDir: store.imageDir });
    await using _other = await store.open({ dataDir: otherDataDir });
    addContent(store, digests.one);
    await collect(images, 0);
    assert.deepEqual(await collect(images, retentionMs + 1), []);
    rmSync(otherDataDir, { recursive: true });
    assert.deepEqual(await collect(images, retentionMs + 1), [digests.one]);
    await using _again = await store.open({ dataDir: store.imageDir });
    assert.equal(readdirSync(users).length, 2, "it may come back");
    const longAgo = Date.now() / 1_000 - 31 * 24 * 3_600;
    for (const name of readdirSync(users)) utimesSync(join(users, name), longAgo, longAgo);
    await using _later = await store.open({ dataDir: store.imageDir });
    assert.equal(readdirSync(users).length, 1);
  } finally {
    rmSync(otherDataDir, { recursive: true, force: true });
  }
});
