// How files and directories are answered as JSON.
import { posix } from "node:path";
import { pipeline, type Readable, Transform } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import {
  type Directory,
  type File,
  type FileWithContent,
  fileTextMaxBytes,
} from "../../contract/sandbox-api/filesystem.ts";
import { AppError } from "../../core/errors.ts";
import type { FileInfo } from "../machine.ts";
import { formatPermissions } from "./permissions.ts";

export function fileAnswer(path: string, name: string, info: FileInfo): File {
  return {
    path,
    name,
    permissions: formatPermissions(info.mode),
    size: info.sizeBytes,
    lastModified: new Date(info.modifiedAtMs).toUTCString(),
    owner: info.owner,
    group: info.group,
  };
}

/** Everything that is not a directory itself is among the files, symbolic links included. */
export function directoryAnswer(path: string, entries: readonly FileInfo[]): Directory {
  const directory: Directory = { path, name: posix.basename(path), files: [], subdirectories: [] };
  for (const entry of entries) {
    const entryPath = posix.join(path, entry.name);
    if (entry.type === "directory") directory.subdirectories.push({ path: entryPath, name: entry.name });
    else directory.files.push(fileAnswer(entryPath, entry.name, entry));
  }
  return directory;
}

export function checkTextSize(info: FileInfo): void {
  if (info.sizeBytes <= fileTextMaxBytes) return;
  const limitMb = fileTextMaxBytes / 1024 / 1024;
  throw new AppError(
    "unprocessable",
    `The file has ${info.sizeBytes} bytes; as JSON at most ${limitMb} MiB are answered. Use ?download=true, with a Range if needed.`,
  );
}

/** Bytes that are not UTF-8 become U+FFFD. */
export function fileWithText(path: string, info: FileInfo, bytes: Buffer): FileWithContent {
  return { ...fileAnswer(path, "", info), content: bytes.toString("utf8") };
}

/** FileWithContent as JSON text, encoded piece by piece so that no file stands whole in memory. Bytes that are not UTF-8 become U+FFFD. */
export function fileWithContent(path: string, info: FileInfo, body: Readable): Readable {
  const decoder = new StringDecoder("utf8");
  const text = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      done(null, JSON.stringify(decoder.write(chunk)).slice(1, -1));
    },
    flush(done) {
      done(null, `${JSON.stringify(decoder.end()).slice(1, -1)}"}`);
    },
  });
  text.push(`${JSON.stringify(fileAnswer(path, "", info)).slice(0, -1)},"content":"`);
  // Whichever ends early ends the other, also before anything was read: a body left open keeps its worker.
  pipeline(body, text, () => undefined);
  return text;
}
