// One pull from start to end: copy from the registry, check, unpack, publish. What is published is whole; what is not is removed.
import { existsSync } from "node:fs";
import { readdir, rename, rm, stat, statfs, utimes } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "../../core/errors.ts";
import { runCommand } from "../../core/run-command.ts";
import { copyFromRegistry } from "./copy-from-registry.ts";
import { ImageDefect, type PulledImage, readPulledImage } from "./oci-layout.ts";
import type { ImageReference } from "./reference.ts";
import { makeDirectoryInRoot, unpackImage } from "./unpack.ts";
import { makeWorkDir, removeTree } from "./work-dirs.ts";

export type PullOptions = {
  imageDir: string;
  idRangeStart: number;
  maxImageBytes: number;
  insecureRegistries: readonly string[];
  /** How patiently the registry is asked: an image that is here already is not worth waiting long for. */
  copyTimeoutMs: number;
  copyRetries: number;
  signal: AbortSignal;
  onPhase: (phase: "copied" | "unpacked", fields: Record<string, unknown>) => void;
};

const unpackTimeoutMs = 600_000;
/** Layers kept for later pulls. Those of the last hour stay in any case: a pull under way may count on them. */
const blobCacheMaxBytes = 4 * 1024 ** 3;
const spaceMinBytes = 256 * 1024 ** 2;
const blobKeptMs = 3_600_000;

export async function pullImage(reference: ImageReference, options: PullOptions): Promise<PulledImage> {
  const pullsDir = join(options.imageDir, "pulls");
  const bytesMax = await acceptedBytes(options);
  const workDir = await makeWorkDir(join(pullsDir, "work"));
  try {
    const image = await copyAndRead(reference, pullsDir, workDir, { ...options, maxImageBytes: bytesMax });
    options.onPhase("copied", { digest: image.digest, layerBytes: image.layerBytes });
    if (image.layerBytes > bytesMax) throw new ImageDefect("It is larger than this platform accepts.");
    const rootDir = join(options.imageDir, "rootfs", image.digest);
    if (!existsSync(rootDir))
      await unpackAndPublish(image, rootDir, pullsDir, workDir, { ...options, maxImageBytes: bytesMax });
    return image;
  } finally {
    await removeTree(workDir);
    await trimBlobCache(join(pullsDir, "blobs/sha256"));
  }
}

async function copyAndRead(
  reference: ImageReference,
  pullsDir: string,
  workDir: string,
  { insecureRegistries, maxImageBytes, copyTimeoutMs, copyRetries, signal }: PullOptions,
): Promise<PulledImage> {
  const receivedMaxBytes = maxImageBytes + 16 * 1024 * 1024;
  await copyFromRegistry({
    reference,
    pullsDir,
    workDir,
    insecureRegistries,
    receivedMaxBytes,
    timeoutMs: copyTimeoutMs,
    retries: copyRetries,
    signal,
  });
  const image = await readPulledImage(join(workDir, "layout"), join(pullsDir, "blobs"));
  const now = new Date();
  for (const blob of image.blobs) await utimes(join(pullsDir, "blobs/sha256", blob), now, now);
  return image;
}

async function unpackAndPublish(
  image: PulledImage,
  rootDir: string,
  pullsDir: string,
  workDir: string,
  { idRangeStart, maxImageBytes, signal, onPhase }: PullOptions,
): Promise<void> {
  const limits = { bytesMax: maxImageBytes, timeoutMs: unpackTimeoutMs };
  let root: string;
  try {
    root = await unpackImage({ pullsDir, workDir, idRangeStart, signal, ...limits });
  } catch (error) {
    // Should a cached blob be damaged, the next pull fetches it anew.
    for (const blob of image.blobs) await rm(join(pullsDir, "blobs/sha256", blob), { force: true });
    throw error;
  }
  makeDirectoryInRoot(root, image.workingDir, idRangeStart);
  makeDirectoryInRoot(root, image.homeDir, idRangeStart);
  await runCommand("sync", ["-f", root], { timeoutMs: 300_000, signal });
  await rename(root, rootDir).catch((error: unknown) => {
    // Another process published the same content first.
    if (!existsSync(rootDir)) throw error;
  });
  onPhase("unpacked", { digest: image.digest });
}

/** The limit of an image here and now: it is on disk packed and unpacked, and a twentieth of the disk stays free besides. */
async function acceptedBytes({ imageDir, maxImageBytes }: PullOptions): Promise<number> {
  const disk = await statfs(imageDir);
  const spareBytes = (disk.bavail - disk.blocks / 20) * disk.bsize;
  if (spareBytes < spaceMinBytes)
    throw new AppError("unavailable", "This host has too little disk space left to pull images.");
  return Math.min(maxImageBytes, Math.floor(spareBytes / 2));
}

async function trimBlobCache(dir: string): Promise<void> {
  const blobs = [];
  for (const name of await readdir(dir).catch(() => [])) {
    const path = join(dir, name);
    const info = await stat(path).catch(() => undefined);
    if (info !== undefined) blobs.push({ path, sizeBytes: info.size, usedAtMs: info.mtimeMs });
  }
  blobs.sort((a, b) => b.usedAtMs - a.usedAtMs);
  let keptBytes = 0;
  for (const { path, sizeBytes, usedAtMs } of blobs) {
    keptBytes += sizeBytes;
    if (keptBytes > blobCacheMaxBytes && Date.now() - usedAtMs > blobKeptMs) await rm(path, { force: true });
  }
}
