// Files that are read back after a crash: replaced whole, so a reader sees the old content or the new, never a part.
import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
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
  const file = openSync(temporary, "w", mode);
  try {
    writeSync(file, content);
    if (durable) fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporary, path);
  if (!durable) return;
  const directory = openSync(dirname(path), "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
