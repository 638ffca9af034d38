// A real registry on a loopback port, and images made for it layer by layer.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../src/core/run-command.ts";
import { readHostConfig } from "../../src/host/config.ts";
import { eventually } from "../eventually.ts";
import { type TarEntry, tar } from "./tar.ts";

export type ImageRecipe = {
  layers: (readonly TarEntry[] | { raw: Buffer })[];
  /** Arguments of `umoci config`, e.g. `--config.env`, `A=b`. */
  config?: string[];
  compression?: "gzip" | "zstd";
};

export type TestRegistry = AsyncDisposable & {
  /** `127.0.0.1:port`. */
  readonly address: string;
  readonly dir: string;
  /** Builds an image and pushes it; returns the complete reference. */
  push(name: string, recipe: ImageRecipe): Promise<string>;
  /** Gives an image a second name; returns its complete reference. */
  copy(from: string, to: string): Promise<string>;
  stop(): Promise<void>;
};

/** Where set-up put the registry's program: beside the images, because its package would start a service. */
function registryProgram(): string {
  const unpacked = join(
    readHostConfig(process.env, "/").imageDir,
    "test-tools/docker-registry/usr/bin/docker-registry",
  );
  return existsSync(unpacked) ? unpacked : "docker-registry";
}

export async function startRegistry(): Promise<TestRegistry> {
  const dir = await mkdtemp(join(tmpdir(), "catnap-registry-"));
  const address = `127.0.0.1:${await freePort()}`;
  const config = {
    version: 0.1,
    log: { level: "error" },
    storage: { filesystem: { rootdirectory: join(dir, "storage") } },
    http: { addr: address },
  };
  await writeFile(join(dir, "config.yml"), JSON.stringify(config));
  const server = spawn(registryProgram(), ["serve", join(dir, "config.yml")], { stdio: "ignore" });
  const failed = new Promise<never>((_, reject) => server.once("error", reject));
  failed.catch(() => undefined);
  const answers = async (): Promise<void> => assert.ok((await fetch(`http://${address}/v2/`)).ok);
  await Promise.race([eventually(answers), failed]);
  return {
    address,
    dir,
    push: (name, recipe) => push({ address, dir }, name, recipe),
    async copy(from, to) {
      const plain = ["--insecure-policy", "--src-tls-verify=false", "--dest-tls-verify=false"];
      await runCommand("skopeo", [
        "copy",
        "--quiet",
        ...plain,
        `docker://${address}/${from}`,
        `docker://${address}/${to}`,
      ]);
      return `${address}/${to}`;
    },
    stop: () => stop(server),
    async [Symbol.asyncDispose]() {
      await stop(server);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGKILL");
  await ended;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

async function push(
  { address, dir }: { address: string; dir: string },
  name: string,
  { layers, config = [], compression = "gzip" }: ImageRecipe,
): Promise<string> {
  const work = await mkdtemp(join(dir, "image-"));
  const layout = join(work, "layout");
  await mkdir(join(work, "layers"));
  await runCommand("umoci", ["init", "--layout", layout]);
  await runCommand("umoci", ["new", "--image", `${layout}:image`]);
  for (const [index, layer] of layers.entries()) {
    const file = join(work, "layers", `${index}.tar`);
    await writeFile(file, "raw" in layer ? layer.raw : tar(layer));
    await runCommand("umoci", ["raw", "add-layer", "--image", `${layout}:image`, file]);
  }
  if (config.length > 0) await runCommand("umoci", ["config", "--image", `${layout}:image`, ...config]);
  const reference = `${address}/${name}`;
  const options = ["--quiet", "--insecure-policy", "--dest-tls-verify=false", "--dest-compress-format", compression];
  await runCommand("skopeo", ["copy", ...options, `oci:${layout}:image`, `docker://${reference}`]);
  await rm(work, { recursive: true });
  return reference;
}
