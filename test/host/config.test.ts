// Settings of a host that more depends on than their own value.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readHostConfig } from "../../src/host/config.ts";

test("a data directory has one name, whichever link leads there and whether it exists yet", () => {
  const dir = mkdtempSync(join(tmpdir(), "catnap-config-"));
  try {
    mkdirSync(join(dir, "disk"));
    symlinkSync("disk", join(dir, "link"));
    const read = (path: string): string => readHostConfig({ CATNAP_DATA_DIR: join(dir, path) }, "/").dataDir;
    const before = read("link/data/deep");
    mkdirSync(join(dir, "disk/data/deep"), { recursive: true });
    assert.deepEqual(
      [before, read("link/data/deep"), read("disk/data/deep"), read("disk/../link/data/deep/")],
      Array.from({ length: 4 }, () => join(dir, "disk/data/deep")),
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("an idle timeout may be given in milliseconds", () => {
  assert.equal(readHostConfig({ CATNAP_IDLE_TIMEOUT: "20ms" }, "/").idleTimeoutMs, 20);
});

test("registries are listed by host and port, and nothing else", () => {
  const read = (list: string) => readHostConfig({ CATNAP_INSECURE_REGISTRIES: list }, "/").insecureRegistries;
  assert.deepEqual(read("127.0.0.1:5000, registry.lan"), ["127.0.0.1:5000", "registry.lan"]);
  for (const list of ["http://registry.lan", "registry.lan/images", "registry.lan:port", "a b"]) {
    assert.throws(() => read(list), /CATNAP_INSECURE_REGISTRIES must be a list such as registry\.lan:5000/);
  }
});
