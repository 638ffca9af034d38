// Unpacks a pulled image into a root file system whose ids are shifted into the unprivileged range, and checks what came of it.
// Layers are hostile: umoci works in a jail where nothing but the target is writable, and nothing it wrote is trusted afterwards.
import { chmodSync, chownSync, lstatSync, mkdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { AppError } from "../../core/errors.ts";
import { runCommand } from "../../core/run-command.ts";
import { idRange } from "./id-range.ts";
import { jailArguments, jailEnvironment } from "./jail.ts";
import { ImageDefect } from "./oci-layout.ts";
import { watchWriting } from "./written-bytes.ts";

export type UnpackOptions = {
  pullsDir: string;
  workDir: string;
  idRangeStart: number;
  bytesMax: number;
  timeoutMs: number;
  signal: AbortSignal;
};

const filesMax = 2_000_000;
const tooLargeMessage = "Unpacked, it is larger than this platform accepts.";
const memoryMaxBytes = 4 * 1024 ** 3;

/** What writing any owner, mode, device and file capability takes; being able to mount or trace is not among it. */
const capabilities = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP"].map((name) => `CAP_${name}`);

/** Returns the directory, complete and checked, still inside the work directory. */
export async function unpackImage(options: UnpackOptions): Promise<string> {
  const target = join(options.workDir, "unpacked");
  await mkdir(target, { mode: 0o700 });
  await runUmoci(options, target);
  const root = join(target, "rootfs");
  await checkRoot(root, options);
  return root;
}

async function runUmoci(options: UnpackOptions, target: string): Promise<void> {
  const { pullsDir, workDir, idRangeStart, bytesMax, timeoutMs } = options;
  const map = `0:${idRangeStart}:${idRange.count}`;
  const limits = [`--fsize=${bytesMax}`, `--as=${memoryMaxBytes}`, "--nofile=4096", "--core=0"];
  const layout = `/pulls/work/${basename(workDir)}/layout:image`;
  const jail = jailArguments({
    readable: [{ from: pullsDir, to: "/pulls" }],
    writable: [{ from: target, to: "/target" }],
    capabilities,
    command: [
      "prlimit",
      ...limits,
      "umoci",
      "raw",
      "unpack",
      "--uid-map",
      map,
      "--gid-map",
      map,
      "--image",
      layout,
      "/target/rootfs",
    ],
  });
  const tooLarge = new AbortController();
  let watch: Promise<Disposable> | undefined;
  const onSpawn = (pid: number): void => {
    watch = watchWriting(pid, { bytesMax, filesMax, dir: target }, () => tooLarge.abort());
  };
  const signal = AbortSignal.any([options.signal, tooLarge.signal]);
  try {
    await runCommand("bwrap", jail, { env: jailEnvironment, timeoutMs, signal, onSpawn });
  } catch (error) {
    const fileTooLarge = error instanceof AppError && /file too large/i.test(error.message);
    if (tooLarge.signal.aborted || fileTooLarge) throw new ImageDefect(tooLargeMessage, { cause: error });
    options.signal.throwIfAborted();
    throw new ImageDefect("Its layers could not be unpacked.", { cause: error });
  } finally {
    (await watch)?.[Symbol.dispose]();
  }
}

/** Mends what a tree lawfully may hold, then refuses one with an id outside the range or more bytes than accepted. */
async function checkRoot(root: string, { idRangeStart, bytesMax, signal }: UnpackOptions): Promise<void> {
  if (!lstatSync(root).isDirectory()) throw new ImageDefect("Its root is not a directory.");
  const find = (args: string[]) => runCommand("find", [root, "-xdev", ...args], { timeoutMs: 300_000, signal });
  // Directories that layers imply but do not contain are made by umoci under its own id; devices are of no use in a sandbox.
  const implied = ["-type", "d", "-uid", "0", "-exec", "chown", "-h", `${idRangeStart}:${idRangeStart}`, "{}", "+"];
  await find(["(", ...implied, ")", "-o", "(", "-type", "b", "-o", "-type", "c", ")", "-delete"]);
  const end = idRangeStart + idRange.count - 1;
  const outside = ["uid", "gid"].flatMap((id) => [`-${id}`, `-${idRangeStart}`, "-o", `-${id}`, `+${end}`, "-o"]);
  const { stdout } = await find(["(", ...outside, "-type", "b", "-o", "-type", "c", ")", "-print", "-quit"]);
  if (stdout !== "") throw new ImageDefect("It has files of owners that do not exist in a sandbox.");
  const usage = await runCommand("du", ["-sx", "--block-size=1", root], { timeoutMs: 300_000, signal });
  if (Number.parseInt(usage.stdout, 10) > bytesMax) throw new ImageDefect(tooLargeMessage);
}

/**
 * Makes a directory the configuration names and the layers lack. Nothing runs in the tree yet, so looking and then making is safe;
 * a link on the way is left to the sandbox to follow.
 */
export function makeDirectoryInRoot(root: string, directory: string, idRangeStart: number): void {
  let path = root;
  for (const segment of directory.split("/").filter(Boolean)) {
    path = join(path, segment);
    const info = lstatSync(path, { throwIfNoEntry: false });
    if (info !== undefined) {
      if (!info.isDirectory()) return;
      continue;
    }
    mkdirSync(path);
    chownSync(path, idRangeStart, idRangeStart);
    chmodSync(path, 0o755);
  }
}
