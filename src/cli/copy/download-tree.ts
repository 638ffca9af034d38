// Copies a directory of a sandbox to this machine. The sandbox is not trusted: it says names and bytes, never where they go.
import { lstat, mkdir } from "node:fs/promises";
import { join, posix } from "node:path";
import { CliFailure } from "../failure.ts";
import { downloadFile, NotAFile } from "./download.ts";
import { checkBounds, forEachInFlight } from "./limits.ts";
import { isEntryName } from "./location.ts";
import type { Progress } from "./progress.ts";
import type { SandboxFiles } from "./sandbox-files.ts";

type FoundFile = { path: string; mode: number };

export type DownloadTreeOptions = { files: SandboxFiles; source: string; target: string; progress: Progress };

/** Returns what was left out: links to directories or to nothing, sockets, devices and pipes. Links to files become files. */
export async function downloadTree(options: DownloadTreeOptions): Promise<{ files: number; skipped: string[] }> {
  const { files, source, target, progress } = options;
  const found = await findFiles(options);
  const skipped: string[] = [];
  await forEachInFlight(found, async ({ path, mode }) => {
    try {
      const from = posix.join(source, path);
      await downloadFile(files, { source: from, target: join(target, path), mode }, progress);
    } catch (error) {
      if (!isLeftOut(error)) throw error;
      skipped.push(path);
    }
  });
  return { files: found.length - skipped.length, skipped };
}

/** Makes the directories as it finds them; paths are relative to the root. */
async function findFiles({ files, source, target, progress }: DownloadTreeOptions): Promise<FoundFile[]> {
  const found: FoundFile[] = [];
  const pending = [{ path: "", depth: 0 }];
  let entryCount = 0;
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { path, depth } = next;
    await makeLocalDirectory(join(target, path));
    const listing = await files.list(posix.join(source, path));
    entryCount += listing.files.length + listing.subdirectories.length;
    checkBounds(entryCount, depth, source);
    for (const { name } of [...listing.files, ...listing.subdirectories]) {
      if (!isEntryName(name)) throw new CliFailure("failure", "The sandbox listed a name that is not one of a file.");
    }
    for (const { name, permissions, size } of listing.files) {
      const mode = Number.parseInt(permissions, 8);
      found.push({ path: posix.join(path, name), mode: Number.isNaN(mode) ? 0o644 : mode });
      progress.expect(size);
    }
    for (const { name } of listing.subdirectories) pending.push({ path: posix.join(path, name), depth: depth + 1 });
  }
  return found;
}

async function makeLocalDirectory(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    if (!(await lstat(join(path, "."))).isDirectory()) {
      throw new CliFailure("failure", `${path} is in the way: it is not a directory.`, { cause: error });
    }
  }
}

function isLeftOut(error: unknown): boolean {
  return error instanceof NotAFile || (error instanceof CliFailure && (error.status === 404 || error.status === 422));
}
