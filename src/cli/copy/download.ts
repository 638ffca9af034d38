// Copies one file of a sandbox to this machine: beside its place, published by rename, continued where a connection broke.
import { randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { CliFailure } from "../failure.ts";
import type { Progress } from "./progress.ts";
import type { SandboxFiles } from "./sandbox-files.ts";

const attemptsMax = 5;

/** The path names a directory, perhaps by a link. */
export class NotAFile extends CliFailure {
  constructor(path: string) {
    super("failure", `${path} is not a file.`);
  }
}

type Source = { files: SandboxFiles; path: string };

export async function downloadFile(
  files: SandboxFiles,
  { source: path, target, mode }: { source: string; target: string; mode: number },
  progress: Progress,
): Promise<void> {
  const partial = `${target}.${randomBytes(6).toString("hex")}.part`;
  const file = await open(partial, "wx", mode & 0o777);
  try {
    try {
      await fill(file, { files, path }, progress);
    } finally {
      await file.close();
    }
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

async function fill(file: FileHandle, source: Source, progress: Progress): Promise<void> {
  let offset = 0;
  let version: string | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const response = await source.files.read(source.path, offset);
    // A directory is answered with its listing, which is not an attachment.
    if (response.headers["content-disposition"] === undefined) {
      response.destroy();
      throw new NotAFile(source.path);
    }
    const current = versionOf(response);
    if (version !== undefined && (current !== version || (offset > 0 && response.statusCode !== 206))) {
      response.destroy();
      throw new CliFailure("failure", `${source.path} changed while it was copied.`, { remedy: "Copy it again." });
    }
    version = current;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        for (let written = 0; written < chunk.length; ) {
          const { bytesWritten } = await file.write(chunk, written, chunk.length - written, offset);
          written += bytesWritten;
          offset += bytesWritten;
        }
        progress.add(chunk.length);
      }
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const isLocal = code === "ENOSPC" || code === "EIO" || code === "EDQUOT";
      if (isLocal || attempt === attemptsMax) throw error;
    }
  }
}

/** Tells whether a later answer is about the same bytes. */
function versionOf({ headers }: IncomingMessage): string {
  const total = /\/(\d+)$/.exec(headers["content-range"] ?? "")?.[1] ?? headers["content-length"];
  return `${total} ${headers.etag ?? ""} ${headers["last-modified"] ?? ""}`;
}
