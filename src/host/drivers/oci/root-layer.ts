// A small read-only layer between image and writable layer: /etc/hosts, hostname and name servers, and the mount points of the platform's programs.
// The sandbox changes its own copies; a restart shows fresh ones where it did not. Instances with equal content share one.
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type RootLayer = { hostname: string; resolvers: readonly string[]; subIdStart: number };

/** Where the init is found inside. */
export const initPath = "/.catnap-init";
/** And the program that searches contents. */
export const searchPath = "/.catnap-rg";

/** The layer's directory, made on first use. It never changes once it has its name. */
export function ensureRootLayer(layersDir: string, layer: RootLayer): string {
  const files = layerFiles(layer);
  const digest = createHash("sha256")
    .update(JSON.stringify([files, layer.subIdStart]))
    .digest("hex")
    .slice(0, 16);
  const dir = join(layersDir, digest);
  if (existsSync(dir)) return dir;
  mkdirSync(layersDir, { recursive: true, mode: 0o711 });
  const making = `${dir}.${randomBytes(4).toString("hex")}.new`;
  for (const directory of [making, join(making, "etc")]) {
    mkdirSync(directory);
    chmodSync(directory, 0o755);
    chownSync(directory, layer.subIdStart, layer.subIdStart);
  }
  for (const [path, content] of files) {
    writeFileSync(join(making, path), content, { flush: true });
    chmodSync(join(making, path), 0o644);
    chownSync(join(making, path), layer.subIdStart, layer.subIdStart);
  }
  try {
    renameSync(making, dir);
  } catch (error) {
    rmSync(making, { recursive: true });
    if (!existsSync(dir)) throw error;
  }
  return dir;
}

/** Removes what a daemon left that died while it made a layer. */
export function removeUnfinishedLayers(layersDir: string): void {
  if (!existsSync(layersDir)) return;
  for (const name of readdirSync(layersDir)) {
    if (name.endsWith(".new")) rmSync(join(layersDir, name), { recursive: true });
  }
}

function layerFiles({ hostname, resolvers }: RootLayer): [path: string, content: string][] {
  const hosts = [
    "127.0.0.1\tlocalhost",
    `127.0.1.1\t${hostname}`,
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "ff02::1\tip6-allnodes",
    "ff02::2\tip6-allrouters",
  ];
  return [
    [initPath.slice(1), ""],
    [searchPath.slice(1), ""],
    ["etc/hostname", `${hostname}\n`],
    ["etc/hosts", `${hosts.join("\n")}\n`],
    ["etc/resolv.conf", resolvers.map((server) => `nameserver ${server}\n`).join("")],
  ];
}
