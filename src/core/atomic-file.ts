// Files that are read back after a crash: replaced whole, so a reader sees the old content or the new, never a part.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export type WriteOptions = {
  mode?: number;
  /** Also survive power loss, at the cost of two fsyncs; the default survives the death of the process. */
  durable?: boolean;
};

export function writeFileAtomic(
  path: string,
  content: string,
  { mode = 0o600, durable = false }: WriteOptions = {},
): void {
  const temporary = `${path}.new`;
  try {
    writeContent(temporary, content, mode, durable);
    renameSync(temporary, path);
  } catch (error) {
    // On a full disk most of all, what was not finished must not stay.
    rmSync(temporary, { force: true });
    throw error;
  }
  if (!durable) return;
  const directory = openSync(dirname(path), "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** All of it: a single write may end early, as on a disk that has just become full. */
function writeContent(path: string, content: string, mode: number, durable: boolean): void {
  const file = openSync(path, "w", mode);
  try {
    writeFileSync(file, content);
    if (durable) fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
