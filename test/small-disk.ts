// A small file system of a test's own, and how to take all of its room.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type SmallDisk = Disposable & {
  path: string;
  /** To the last byte. */
  fill(): void;
  free(): void;
};

export function mountSmallDisk(megabytes: number, mode = "0700"): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), "small-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=${mode}`, "catnap-test", path]);
  const filler = join(path, "filler");
  return {
    path,
    fill(): void {
      const file = openSync(filler, "a");
      try {
        for (const chunk of [Buffer.alloc(65_536), Buffer.alloc(1)]) for (;;) writeSync(file, chunk);
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, "ENOSPC");
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    [Symbol.dispose](): void {
      execFileSync("umount", ["--lazy", path]);
      rmSync(path, { recursive: true });
    },
  };
}
