// Layers that try to get out of their directory, to grow without end, or to pass for another image. All are either confined or refused.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { lstat, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { runCommand } from "../../src/core/run-command.ts";
import type { Images, ResolvedImage } from "../../src/host/images/images.ts";
import { escapeAttempts } from "./escape-attempts.ts";
import { pushRaw, type RawImage, sha256 } from "./push-raw.ts";
import { type ImageRecipe, startRegistry, type TestRegistry } from "./registry.ts";
import { assertConfined, assertInvalid, assertNoWork, type ImageStore, makeImageStore } from "./support.ts";
import { type TarEntry, tar } from "./tar.ts";

let registry: TestRegistry;
let outside: string;
let store: ImageStore;
let images: Images;
before(async () => {
  registry = await startRegistry();
});
after(() => registry[Symbol.asyncDispose]());
beforeEach(async () => {
  outside = await mkdtemp(join(tmpdir(), "catnap-outside-"));
  await writeFile(join(outside, "file"), "untouched");
  store = await makeImageStore();
  images = await store.open({ insecureRegistries: [registry.address] });
});
afterEach(async () => {
  assert.deepEqual(await readdir(outside), ["file"]);
  assert.equal(await readFile(join(outside, "file"), "utf8"), "untouched");
  await assertNoWork(store.imageDir);
  await images[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await rm(outside, { recursive: true });
});

async function push(layers: ImageRecipe["layers"]): Promise<string> {
  return await registry.push(`hostile/${randomBytes(6).toString("hex")}:1`, { layers });
}

async function resolve(...layers: TarEntry[][]): Promise<ResolvedImage> {
  const image = await images.resolve(await push(layers));
  await assertConfined(image.rootDir);
  return image;
}

const ordinary: TarEntry = { path: "ordinary", content: "here" };

/** Asserts that the image is refused or holds only what a sandbox may, and that no such file came to be elsewhere. */
async function assertContained(layers: TarEntry[][]): Promise<void> {
  const reference = await push(layers);
  const image = await images.resolve(reference).catch(() => undefined);
  if (image !== undefined) await assertConfined(image.rootDir);
  else await assertInvalid(images, reference);
  assert.ok((await readdir(join(store.imageDir, "rootfs"))).length <= 1);
  for (const dir of ["/", "/tmp", store.imageDir, join(store.imageDir, "rootfs"), join(store.imageDir, "pulls")]) {
    assert.equal(existsSync(join(dir, "catnap-evil")), false, dir);
  }
}

describe("a layer cannot write outside its root", () => {
  for (const [how, layers] of escapeAttempts) test(how, () => assertContained(layers(outside)));
});

describe("what an honest image does not need", () => {
  test("is left out: devices", async () => {
    const { rootDir } = await resolve([
      ordinary,
      { path: "dev/", type: "directory" },
      { path: "dev/sda", type: "block", device: { major: 254, minor: 0 }, mode: 0o666 },
      { path: "dev/mem", type: "character", device: { major: 1, minor: 1 }, mode: 0o666 },
      { path: "pipe", type: "fifo" },
    ]);
    assert.deepEqual(await readdir(join(rootDir, "dev")), []);
    assert.ok((await lstat(join(rootDir, "pipe"))).isFIFO());
  });

  test("belongs to the unprivileged range when it is set-id", async () => {
    const { rootDir } = await resolve([{ path: "su", content: "x", mode: 0o6755 }]);
    const { uid, gid, mode } = await lstat(join(rootDir, "su"));
    assert.deepEqual([uid, gid, mode & 0o7777], [2_000_000, 2_000_000, 0o6755]);
  });

  test("is refused: owners outside the range", async () => {
    await assertInvalid(images, await push([[ordinary, { path: "far", content: "x", uid: 70_000 }]]));
  });

  test("is left out: attributes that steer overlay file systems", async () => {
    const pax = { "SCHILY.xattr.trusted.overlay.redirect": "/etc", "SCHILY.xattr.user.kept": "yes" };
    const { rootDir } = await resolve([ordinary, { path: "d/", type: "directory", pax }]);
    const script = "import os, sys; print(*os.listxattr(sys.argv[1]))";
    const { stdout } = await runCommand("python3", ["-c", script, join(rootDir, "d")]);
    assert.equal(stdout.trim(), "user.kept");
  });
});

describe("a small layer that unpacks to much is stopped", () => {
  const bytesMax = 8 * 1024 ** 2;
  const tooLarge = async (reference: string): Promise<void> => {
    await using small = await makeImageStore();
    await using limited = await small.open({ insecureRegistries: [registry.address], maxImageBytes: bytesMax });
    assert.match(await assertInvalid(limited, reference), /larger than this platform accepts/);
    assert.deepEqual(await readdir(join(small.imageDir, "rootfs")), []);
    await assertNoWork(small.imageDir);
  };

  test("as one file of zeros", async () => {
    await tooLarge(await push([[{ path: "zeros", content: Buffer.alloc(64 * 1024 ** 2) }]]));
  });

  test("as many files below the limit each", async () => {
    const files = Array.from({ length: 16 }, (_, index) => ({
      path: `zeros-${index}`,
      content: Buffer.alloc(4 * 1024 ** 2),
    }));
    await tooLarge(await push([files]));
  });

  test("as a sparse file that claims more than it holds", async () => {
    const pax = {
      "GNU.sparse.major": "0",
      "GNU.sparse.minor": "1",
      "GNU.sparse.name": "sparse",
      "GNU.sparse.size": String(1024 ** 4),
      "GNU.sparse.numblocks": "1",
      "GNU.sparse.map": "0,512",
    };
    await tooLarge(await push([[{ path: "sparse", content: Buffer.alloc(512), pax }]]));
  });
});

describe("an image that contradicts itself is refused", () => {
  const layer = tar([ordinary]);
  const other = tar([{ path: "other", content: "there" }]);
  const refused = async (image: RawImage): Promise<string> =>
    await assertInvalid(images, await pushRaw(registry.address, `hostile/${randomBytes(6).toString("hex")}:1`, image));

  test("with a layer that is no archive", async () => {
    await refused({ layers: [Buffer.concat([Buffer.from("not a tar"), Buffer.alloc(700, "x")])] });
  });

  test("with a layer other than its configuration names, which would pass for another image", async () => {
    await refused({ layers: [other], config: { rootfs: { type: "layers", diff_ids: [sha256(layer)] } } });
  });

  test("with fewer or more layers than its configuration names", async () => {
    const named = { rootfs: { type: "layers", diff_ids: [sha256(layer), sha256(other)] } };
    assert.match(await refused({ layers: [layer], config: named }), /does not name its layers/);
    assert.match(await refused({ layers: [layer, other, layer], config: named }), /does not name its layers/);
    assert.match(await refused({ layers: [layer], config: { rootfs: undefined } }), /is malformed/);
  });

  test("with a configuration that is too large, or is not one", async () => {
    await refused({ layers: [layer], config: { history: [{ comment: "x".repeat(5 * 1024 ** 2) }] } });
    await refused({
      layers: [layer],
      config: { config: { Env: Array.from({ length: 9_000 }, (_, n) => `V${n}=12345678`) } },
    });
    await refused({ layers: [layer], config: { config: { WorkingDir: "relative" } } });
    await refused({ layers: [layer], config: { config: [] } });
  });

  test("with no layers at all", async () => {
    await refused({ layers: [] });
  });

  test("with a layer whose size is not what the manifest says", async () => {
    await refused({
      layers: [layer],
      manifest: (honest) => ({ ...honest, layers: honest.layers.map((entry) => ({ ...entry, size: 1 })) }),
    });
  });
});
