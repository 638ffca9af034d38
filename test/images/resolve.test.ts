// Images by name, from a real registry: what is pulled, what is kept, what is shared, and how refusals look.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startRegistry, type TestRegistry } from "./registry.ts";
import { assertConfined, assertInvalid, assertNoWork, makeImageStore } from "./support.ts";

let registry: TestRegistry;
before(async () => {
  registry = await startRegistry();
});
after(() => registry[Symbol.asyncDispose]());

const hello = [{ path: "hello", content: "hello\n" }];

describe("an image from a registry", () => {
  test("is unpacked with shifted ids, and its configuration is taken over", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const reference = await registry.push("team/app:1", {
      layers: [
        [
          { path: "etc/", type: "directory" },
          { path: "etc/app", content: "configured\n", uid: 33, gid: 44, mode: 0o640 },
          { path: "bin/", type: "directory" },
          { path: "bin/tool", content: "#!\n", mode: 0o4755 },
          { path: "link", type: "symlink", linkTo: "/etc/app" },
        ],
      ],
      config: ["--config.env", "GREETING=a=b c", "--config.env", "HOME=/home/app", "--config.workingdir", "/srv/app"],
    });
    const image = await images.resolve(reference);
    assert.equal(image.name, reference);
    assert.equal(image.environment.GREETING, "a=b c");
    assert.match(image.environment.PATH ?? "", /\/usr\/bin/);
    assert.equal(image.workingDir, "/srv/app");
    assert.equal(image.homeDir, "/home/app");
    assert.match(image.digest, /^[0-9a-f]{64}$/);
    const file = await lstat(join(image.rootDir, "etc/app"));
    assert.deepEqual([file.uid, file.gid, file.mode & 0o7777], [2_000_033, 2_000_044, 0o640]);
    assert.equal((await lstat(join(image.rootDir, "bin/tool"))).mode & 0o7777, 0o4755);
    assert.equal(await readlink(join(image.rootDir, "link")), "/etc/app");
    for (const made of ["srv/app", "home/app"]) assert.ok((await lstat(join(image.rootDir, made))).isDirectory());
    await assertConfined(image.rootDir);
    await assertNoWork(store.imageDir);
  });

  test("is only for root to enter, since it holds strangers' set-id programs", async () => {
    await using store = await makeImageStore();
    await using _ = await store.open();
    assert.equal((await lstat(store.imageDir)).mode & 0o777, 0o700);
  });

  test("may have zstd layers", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const layers = [[{ path: "text", content: "again and again ".repeat(10_000) }]];
    const image = await images.resolve(await registry.push("team/zstd:1", { layers, compression: "zstd" }));
    assert.equal((await readFile(join(image.rootDir, "text"))).length, 160_000);
  });

  test("loses what an upper layer deletes and gets what it replaces", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const reference = await registry.push("team/layers:1", {
      layers: [
        [
          { path: "a", content: "lower" },
          { path: "b", content: "lower" },
          { path: "d/", type: "directory" },
          { path: "d/old", content: "lower" },
        ],
        [
          { path: ".wh.a", content: "" },
          { path: "b", content: "upper" },
          { path: "d/.wh..wh..opq", content: "" },
          { path: "d/new", content: "upper" },
        ],
      ],
    });
    const { rootDir } = await images.resolve(reference);
    assert.equal(existsSync(join(rootDir, "a")), false);
    assert.equal(await readFile(join(rootDir, "b"), "utf8"), "upper");
    assert.deepEqual(await readdir(join(rootDir, "d")), ["new"]);
  });

  test("is pulled once for everyone who asks at the same time", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const reference = await registry.push("team/shared:1", { layers: [hello] });
    const resolved = await Promise.all(Array.from({ length: 20 }, () => images.resolve(reference)));
    assert.equal(new Set(resolved.map(({ rootDir }) => rootDir)).size, 1);
    assert.equal(store.logged.filter(({ msg }) => msg === "asking the registry for an image").length, 1);
    assert.equal(store.logged.filter(({ msg }) => msg === "image unpacked").length, 1);
  });

  test("is stored once, however many names lead to it", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const one = await images.resolve(await registry.push("team/one:1", { layers: [hello] }));
    const tagged = await registry.copy("team/one:1", "team/other:2");
    const other = await images.resolve(tagged);
    assert.deepEqual([other.name, other.rootDir], [tagged, one.rootDir]);
    assert.equal(store.logged.filter(({ msg }) => msg === "image unpacked").length, 1);
  });

  test("is found again after a restart, without its registry", async () => {
    await using store = await makeImageStore();
    await using ownRegistry = await startRegistry();
    const reference = await ownRegistry.push("team/kept:1", { layers: [hello] });
    const options = { insecureRegistries: [ownRegistry.address] };
    const first = await store.open(options);
    assert.equal(first.find(reference), undefined);
    const image = await first.resolve(reference);
    await first[Symbol.asyncDispose]();
    await ownRegistry.stop();
    await using second = await store.open(options);
    assert.deepEqual(second.find(reference), image);
    assert.deepEqual(await second.resolve(reference), image);
  });

  test("with a moved tag is noticed after a while, and not before", async (t) => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const reference = await registry.push("team/moving:1", { layers: [hello] });
    const old = await images.resolve(reference);
    await registry.push("team/moving:1", { layers: [[{ path: "hello", content: "moved\n" }]] });
    assert.equal((await images.resolve(reference)).digest, old.digest);
    t.mock.timers.enable({ apis: ["Date"], now: Date.now() + 6 * 60_000 });
    const moved = await images.resolve(reference);
    assert.notEqual(moved.digest, old.digest);
    assert.equal(await readFile(join(moved.rootDir, "hello"), "utf8"), "moved\n");
    assert.equal(await readFile(join(old.rootDir, "hello"), "utf8"), "hello\n", "instances of the old one keep it");
  });

  test("can be named by digest", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    const reference = await registry.push("team/pinned:1", { layers: [hello] });
    const response = await fetch(`http://${registry.address}/v2/team/pinned/manifests/1`, {
      headers: { accept: "application/vnd.oci.image.manifest.v1+json" },
    });
    const pinned = `${registry.address}/team/pinned@${response.headers.get("docker-content-digest")}`;
    assert.equal((await images.resolve(pinned)).digest, (await images.resolve(reference)).digest);
    const wrong = `${registry.address}/team/pinned@sha256:${"0".repeat(64)}`;
    assert.match(await assertInvalid(images, wrong), /does not know it/);
  });
});

describe("an image is refused", () => {
  test("when its registry does not know it, and nothing is left of the attempt", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address] });
    assert.match(await assertInvalid(images, `${registry.address}/no/such:1`), /registry does not know it/);
    await assertNoWork(store.imageDir);
    assert.deepEqual(await readdir(join(store.imageDir, "rootfs")), []);
    assert.deepEqual(await readdir(join(store.imageDir, "references")), []);
  });

  test("when the platform's own namespace does not have it, without asking anyone", async () => {
    await using store = await makeImageStore();
    await using images = await store.open();
    for (const name of ["blaxel/no-such", "blaxel/base-image:3", "catnap/../etc"]) {
      assert.match(await assertInvalid(images, name), /The platform has no image of that name/);
    }
    assert.deepEqual(store.logged, []);
  });

  test("when its name is not one, without asking anyone", async () => {
    await using store = await makeImageStore();
    await using images = await store.open();
    for (const name of ["--help", "dir:/etc", "", "a".repeat(5_000), "x\ny"]) {
      assert.match(await assertInvalid(images, name), /not the name of an image/);
    }
    assert.deepEqual(store.logged, []);
  });

  test("when its registry is on an inner address that is not listed", async () => {
    await using store = await makeImageStore();
    await using images = await store.open();
    const reference = await registry.push("team/inner:1", { layers: [hello] });
    await assertInvalid(images, reference);
    await assertInvalid(images, reference.replace("127.0.0.1", "localhost"));
    assert.deepEqual(await readdir(join(store.imageDir, "pulls/blobs/sha256")), []);
  });

  test("when its registry cannot be reached", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: ["127.0.0.1:1"] });
    assert.match(await assertInvalid(images, "127.0.0.1:1/team/app:1"), /could not be reached/);
  });

  test("when it is larger than accepted, packed or unpacked", async () => {
    await using store = await makeImageStore();
    await using images = await store.open({ insecureRegistries: [registry.address], maxImageBytes: 4 * 1024 ** 2 });
    const zeros = [{ path: "zeros", content: Buffer.alloc(6 * 1024 ** 2) }];
    assert.match(await assertInvalid(images, await registry.push("team/bomb:1", { layers: [zeros] })), /larger than/);
    await assertNoWork(store.imageDir);
    assert.deepEqual(await readdir(join(store.imageDir, "rootfs")), []);
  });
});

test("a record that cannot be read does not keep the others, or the platform, from working", async () => {
  await using store = await makeImageStore();
  const options = { insecureRegistries: [registry.address] };
  const first = await store.open(options);
  const image = await first.resolve(await registry.push("team/records:1", { layers: [hello] }));
  await first[Symbol.asyncDispose]();
  await writeFile(join(store.imageDir, "references/torn.json"), '{"name":');
  await writeFile(join(store.imageDir, "platform/torn.json"), '{"name":');
  await using second = await store.open(options);
  assert.deepEqual(second.find(image.name), image);
  assert.deepEqual(second.list(), []);
});

test("an image whose files are gone is pulled again", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const image = await images.resolve(await registry.push("team/gone:1", { layers: [hello] }));
  await rm(image.rootDir, { recursive: true });
  assert.equal(images.find(image.name), undefined);
  assert.deepEqual(await images.resolve(image.name), image);
  assert.equal(await readFile(join(image.rootDir, "hello"), "utf8"), "hello\n");
});

test("what a dead process left half-made is removed at start, what a living one makes is not", async () => {
  await using store = await makeImageStore();
  const work = join(store.imageDir, "pulls/work");
  const stat = await readFile("/proc/self/stat", "utf8");
  const living = `${process.pid}-${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}-abc`;
  for (const name of ["999999999-1-abc", `${process.pid}-1-abc`, "stray", living]) {
    await mkdir(join(work, name, "unpacked/rootfs"), { recursive: true });
  }
  await using _ = await store.open();
  assert.deepEqual(await readdir(work), [living]);
});

test("a caller who gives up is answered at once, and the pull goes on for the next", async () => {
  await using store = await makeImageStore();
  await using images = await store.open({ insecureRegistries: [registry.address] });
  const reference = await registry.push("team/patience:1", { layers: [hello] });
  const abort = new AbortController();
  const impatient = images.resolve(reference, abort.signal);
  abort.abort();
  await assert.rejects(impatient, { name: "AbortError" });
  assert.equal((await images.resolve(reference)).name, reference);
  assert.equal(store.logged.filter(({ msg }) => msg === "asking the registry for an image").length, 1);
});
