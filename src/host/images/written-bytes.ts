// Watches how much a program and its children have written, and stops it when that is too much: a small layer can unpack to anything.
import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";

export type WriteLimits = {
  bytesMax: number;
  /** New files on the file system of `dir`, whoever makes them: the kernel counts them for nobody in particular. */
  filesMax: number;
  dir: string;
};

const pollMs = 100;

/** Calls `stop` once when a limit is passed. */
export async function watchWriting(pid: number, limits: WriteLimits, stop: () => void): Promise<Disposable> {
  const filesFreeAtStart = (await statfs(limits.dir)).ffree;
  let polling = false;
  const poll = async (): Promise<void> => {
    const filesMade = filesFreeAtStart - (await statfs(limits.dir)).ffree;
    if (writtenBytes(pid) <= limits.bytesMax && filesMade <= limits.filesMax) return;
    clearInterval(timer);
    stop();
  };
  const timer = setInterval(() => {
    if (polling) return;
    polling = true;
    poll()
      .catch(() => undefined)
      .finally(() => {
        polling = false;
      });
  }, pollMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Bytes given to write(2) by a process and its living descendants; 0 when they have ended. */
function writtenBytes(pid: number): number {
  try {
    const own = Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1] ?? 0);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean);
    return children.reduce((sum, child) => sum + writtenBytes(Number(child)), own);
  } catch {
    return 0;
  }
}
