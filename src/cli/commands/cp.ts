// `catnap cp`: files and directories between this machine and a sandbox.
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, posix } from "node:path";
import type { Command } from "commander";
import { addConnectionOptions, type Connection, type ConnectionOptions, connect } from "../connection.ts";
import type { CliContext } from "../context.ts";
import { downloadFile } from "../copy/download.ts";
import { downloadTree } from "../copy/download-tree.ts";
import { type Location, parseLocation, type SandboxLocation, targetPath } from "../copy/location.ts";
import { type Progress, startProgress } from "../copy/progress.ts";
import { SandboxFiles } from "../copy/sandbox-files.ts";
import { uploadFile } from "../copy/upload.ts";
import { uploadTree } from "../copy/upload-tree.ts";
import { CliFailure, printable, usageFailure } from "../failure.ts";
import { Stopper } from "../process/foreground.ts";

type Copied = { target: string; files: number; skipped: string[] };
type Copy = { connection: Connection; progress: Progress; signal: AbortSignal };

const skippedShownMax = 10;

export function defineCp(command: Command, context: CliContext, finish: (exitCode: number) => void): void {
  command
    .argument("<source>", "file or directory: a path here, or NAME:path in a sandbox")
    .argument("<target>", "where to: into it when it is a directory or ends with a slash")
    .addHelpText(
      "after",
      `
Directories are copied with all they contain; DIR/. copies the content alone. Permission bits are kept.
Large files are sent in verified parts; a file appears at its place only when it is whole.
A path in a sandbox without a leading slash starts from its working directory.

Examples:
  catnap cp model.bin dev:/data/
  catnap cp dev:/var/log/app.log .
  catnap cp ./project dev:/work`,
    );
  addConnectionOptions(command).action(async (sourceText: string, targetText: string, options: ConnectionOptions) => {
    const start = toCopy(parseLocation(sourceText), parseLocation(targetText));
    using connection = connect(context, options);
    using stopper = new Stopper(context);
    using progress = startProgress(context.stderr, printable(posix.basename(sourceText)));
    try {
      const copied = await start({ connection, progress, signal: stopper.signal });
      progress[Symbol.dispose]();
      report(copied, options.json === true, context);
    } catch (error) {
      if (stopper.exitCode === undefined) throw error;
      finish(stopper.exitCode);
    }
  });
}

function toCopy(source: Location, target: Location): (copy: Copy) => Promise<Copied> {
  if (source.kind === "local" && target.kind === "sandbox") return (copy) => upload(copy, source.path, target);
  if (source.kind === "sandbox" && target.kind === "local") return (copy) => download(copy, source, target.path);
  throw usageFailure("One of the two must be in a sandbox, written NAME:path, and the other here.");
}

async function upload({ connection, progress, signal }: Copy, source: string, to: SandboxLocation): Promise<Copied> {
  const info = await stat(source).catch((error: unknown) => {
    throw new CliFailure("notFound", `There is no ${source} here.`, { cause: error });
  });
  if (!info.isFile() && !info.isDirectory()) throw usageFailure(`${source} is neither a file nor a directory.`);
  const http = await connection.openSandbox(to.sandbox, signal);
  const files = new SandboxFiles(http, signal);
  const existing = await files.kindOf(to.path);
  if (info.isDirectory()) {
    if (existing === "file") throw new CliFailure("failure", `${to.path} is in the way: it is a file.`);
    const target = targetPath(source, to.path, existing === "directory");
    return { target, ...(await uploadTree({ http, files, source, target, progress, signal })) };
  }
  const target = targetPath(source, to.path, existing === "directory");
  progress.expect(info.size);
  await uploadFile(files, { source, target }, progress);
  return { target, files: 1, skipped: [] };
}

async function download({ connection, progress, signal }: Copy, from: SandboxLocation, to: string): Promise<Copied> {
  const { sandbox } = from;
  const http = await connection.openSandbox(sandbox, signal);
  const files = new SandboxFiles(http, signal);
  const kind = await files.kindOf(from.path);
  if (kind === "missing") throw new CliFailure("notFound", `There is no ${from.path} in sandbox ${sandbox}.`);
  const existing = await stat(to).catch(() => undefined);
  const target = targetPath(from.path, to, existing?.isDirectory() === true);
  if (kind === "directory") {
    if (existing?.isFile() === true) throw new CliFailure("failure", `${to} is in the way: it is a file.`);
    return { target, ...(await downloadTree({ files, source: from.path, target, progress })) };
  }
  if (!existsSync(dirname(target))) throw new CliFailure("notFound", `There is no directory ${dirname(target)} here.`);
  const { size, mode } = await describe(files, from.path);
  progress.expect(size);
  await downloadFile(files, { source: from.path, target, mode }, progress);
  return { target, files: 1, skipped: [] };
}

/** Size and permissions stand only in the listing of the directory; a copy without them is better than none. */
async function describe(files: SandboxFiles, path: string): Promise<{ size: number; mode: number }> {
  const listing = await files.list(posix.dirname(path)).catch(() => undefined);
  const entry = listing?.files.find(({ name }) => name === posix.basename(path));
  const mode = Number.parseInt(entry?.permissions ?? "", 8);
  return { size: entry?.size ?? 0, mode: Number.isNaN(mode) ? 0o644 : mode };
}

function report({ target, files, skipped }: Copied, json: boolean, { stdout, stderr }: CliContext): void {
  if (json) {
    stdout.write(`${JSON.stringify({ target, files, skipped })}\n`);
    return;
  }
  if (skipped.length === 0) return;
  const shown = skipped.slice(0, skippedShownMax).map((path) => `  ${printable(path)}\n`);
  stderr.write(`catnap: left out ${skipped.length} that are neither files nor directories:\n${shown.join("")}`);
}
