// The base image as set-up built it on this machine: its names, what is in it, and what is not.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import { runCommand } from "../../src/core/run-command.ts";
import { readHostConfig } from "../../src/host/config.ts";
import { idRange } from "../../src/host/images/id-range.ts";
import { type Images, openImages, type ResolvedImage } from "../../src/host/images/images.ts";
import { assertConfined, assertInvalid } from "./support.ts";

const projectRoot = join(import.meta.dirname, "../..");
const { imageDir } = readHostConfig(process.env, projectRoot);
const definition = JSON.parse(readFileSync(join(projectRoot, "images/base-image/image.json"), "utf8")) as {
  packages: string[];
  npmVersion: string;
};

let images: Images;
let base: ResolvedImage;
before(async () => {
  const options = { imageDir, insecureRegistries: [], idRangeStart: idRange.start, maxImageBytes: 1024 ** 3 };
  images = await openImages({ ...options, log: createLogger("silent") });
  base = await images.resolve("blaxel/base-image:latest");
});
after(() => images[Symbol.asyncDispose]());

describe("the base image", () => {
  for (const name of ["base-image", "node", "py-app"]) {
    test(`is what the names of ${name} mean`, async () => {
      for (const form of [`blaxel/${name}:latest`, `blaxel/${name}`, `catnap/${name}`, name, `${name}:latest`]) {
        assert.equal((await images.resolve(form)).rootDir, base.rootDir, form);
        assert.equal(images.find(form)?.digest, base.digest, form);
      }
      assert.ok(images.list().includes(`blaxel/${name}:latest`));
    });
  }

  test("is not what other tags of its names mean", async () => {
    for (const name of ["blaxel/base-image:1", "blaxel/node:latest2", "catnap/base-image@sha256:0"]) {
      assert.equal(images.find(name), undefined);
      await assertInvalid(images, name);
    }
  });

  test("starts processes in /blaxel, which is root's home", async () => {
    assert.deepEqual([base.workingDir, base.homeDir, base.environment.HOME], ["/blaxel", "/blaxel", "/blaxel"]);
    assert.match(await readFile(join(base.rootDir, "etc/passwd"), "utf8"), /^root:x:0:0:root:\/blaxel:\/bin\/bash$/m);
    assert.ok((await lstat(join(base.rootDir, "blaxel"))).isDirectory());
  });

  test("has every package of its definition", async () => {
    const status = await readFile(join(base.rootDir, "var/lib/dpkg/status"), "utf8");
    const installed = new Set(
      [...status.matchAll(/^Package: (\S+)\n(?:Essential: yes\n)?Status: install ok installed$/gm)].map(
        (match) => match[1],
      ),
    );
    assert.deepEqual(
      definition.packages.filter((name) => !installed.has(name)),
      [],
    );
  });

  test("runs the project's own Node with npm, Python, git, curl and ripgrep", async () => {
    // Read-only and apart, because other sandboxes of this machine stand on the same files.
    const apart = [
      "--unshare-all",
      "--ro-bind",
      base.rootDir,
      "/",
      "--dev",
      "/dev",
      "--proc",
      "/proc",
      "--tmpfs",
      "/tmp",
      "--",
    ];
    const inside = async (...command: string[]): Promise<string> =>
      (await runCommand("bwrap", [...apart, ...command], { env: base.environment })).stdout.trim();
    assert.equal(await inside("node", "--version"), process.version);
    assert.equal(await inside("npm", "--version"), definition.npmVersion);
    assert.equal(await inside("python", "-c", "print(6 * 7)"), "42");
    for (const program of ["git", "curl", "rg", "bash"]) assert.match(await inside(program, "--version"), /\d+\.\d+/);
  });

  test("belongs to the unprivileged range and has no devices", () => assertConfined(base.rootDir));

  test("holds nothing of the machine it was built on", async () => {
    for (const path of [
      "etc/resolv.conf",
      "etc/hostname",
      "etc/machine-id",
      "etc/apt/apt.conf.d/99mmdebstrap",
      "root/.npm",
    ]) {
      assert.equal(existsSync(join(base.rootDir, path)), false, path);
    }
    for (const dir of [
      "var/lib/apt/lists",
      "var/cache/apt/archives",
      "tmp",
      "dev",
      "usr/local/share/ca-certificates",
    ]) {
      if (existsSync(join(base.rootDir, dir))) assert.deepEqual(readdirSync(join(base.rootDir, dir)), [], dir);
    }
    const sources = readdirSync(join(base.rootDir, "etc/apt/sources.list.d"));
    assert.deepEqual(sources, ["debian.sources"]);
    const uris = (await readFile(join(base.rootDir, "etc/apt/sources.list.d/debian.sources"), "utf8")).match(
      /^URIs: .*$/gm,
    );
    assert.deepEqual(uris, ["URIs: http://deb.debian.org/debian", "URIs: http://deb.debian.org/debian-security"]);
    const modules = join(base.rootDir, "usr/local/lib/node_modules");
    const search = ["-rlE", "--include=*.json", '"_?resolved":', modules];
    const { stdout } = await runCommand("grep", search, { okCodes: [1] });
    assert.equal(stdout, "");
  });
});
