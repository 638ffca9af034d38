// Copies a directory of this machine into a sandbox: directories first, then files side by side, then symbolic links as they are.
import { lstat, readdir, readlink } from "node:fs/promises";
import { join, posix } from "node:path";
import { CliFailure, printable } from "../failure.ts";
import type { HttpClient } from "../http/http-client.ts";
import { runProcess } from "../process/run-process.ts";
import { checkBounds, forEachInFlight } from "./limits.ts";
import type { Progress } from "./progress.ts";
import type { SandboxFiles } from "./sandbox-files.ts";
import { uploadFile } from "./upload.ts";

type Tree = {
  directories: { path: string; mode: number }[];
  files: string[];
  links: { path: string; target: string }[];
  skipped: string[];
  bytes: number;
};

export type UploadTreeOptions = {
  http: HttpClient;
  files: SandboxFiles;
  source: string;
  target: string;
  progress: Progress;
  signal: AbortSignal;
};

/** Bytes of arguments that one `ln` process gets; the sandbox's kernel allows more. */
const linkBatchBytes = 60_000;

/** Returns what was left out: sockets, devices and pipes. */
export async function uploadTree(options: UploadTreeOptions): Promise<{ files: number; skipped: string[] }> {
  const { files, source, target, progress } = options;
  const tree = await readTree(source);
  progress.expect(tree.bytes);
  for (const { path, mode } of tree.directories) await files.makeDirectory(posix.join(target, path), mode);
  await forEachInFlight(tree.files, (path) =>
    uploadFile(files, { source: join(source, path), target: posix.join(target, path) }, progress),
  );
  await makeLinks(options, tree.links);
  return { files: tree.files.length, skipped: tree.skipped };
}

/** Paths are relative to the root, which stands first as the empty path. */
async function readTree(root: string): Promise<Tree> {
  const tree: Tree = { directories: [], files: [], links: [], skipped: [], bytes: 0 };
  const pending = [{ path: "", depth: 0 }];
  let entryCount = 0;
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { path, depth } = next;
    checkBounds(entryCount, depth, root);
    const { mode } = await lstat(join(root, path, "."));
    tree.directories.push({ path, mode });
    for (const entry of await readdir(join(root, path), { withFileTypes: true })) {
      entryCount += 1;
      const entryPath = posix.join(path, entry.name);
      if (entry.isDirectory()) pending.push({ path: entryPath, depth: depth + 1 });
      else if (entry.isSymbolicLink())
        tree.links.push({ path: entryPath, target: await readlink(join(root, entryPath)) });
      else if (entry.isFile()) {
        tree.files.push(entryPath);
        tree.bytes += (await lstat(join(root, entryPath))).size;
      } else tree.skipped.push(entryPath);
    }
  }
  return tree;
}

/** The sandbox API cannot make links, so `ln` inside does; a link at the same place is replaced, a directory is not entered. */
async function makeLinks({ http, target, signal }: UploadTreeOptions, links: Tree["links"]): Promise<void> {
  const script = 'while [ $# -gt 1 ]; do ln -sfn -- "$1" "$2" || exit 1; shift 2; done';
  let batch: string[] = [];
  let batchBytes = 0;
  const flush = async (): Promise<void> => {
    if (batch.length === 0) return;
    let said = "";
    const write = async (_: string, chunk: Buffer): Promise<void> => {
      said = (said + chunk.toString("utf8")).slice(-1_000);
    };
    const { exitCode } = await runProcess(
      http,
      { argv: ["sh", "-c", script, "sh", ...batch] },
      { write, stop: signal },
    );
    if (exitCode !== 0) throw new CliFailure("failure", `A symbolic link could not be made: ${printable(said.trim())}`);
    batch = [];
    batchBytes = 0;
  };
  for (const { path, target: linkTarget } of links) {
    const linkPath = posix.join(target, path);
    batch.push(linkTarget, linkPath);
    batchBytes += Buffer.byteLength(linkTarget) + Buffer.byteLength(linkPath) + 8;
    if (batchBytes > linkBatchBytes) await flush();
  }
  await flush();
}
