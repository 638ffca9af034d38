// Objects as files of a directory: written beside their place, synced and then named, so that an object is whole or absent.
import { mkdirSync, rmSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rm, statfs } from "node:fs/promises";
import { join } from "node:path";

export type ObjectWriter = {
  /** Resolves when the bytes have been handed to the system. */
  write(chunk: Buffer): Promise<void>;
  /** Resolves when the object has its name and survives a loss of power. */
  commit(): Promise<void>;
  /** Leaves nothing; of no effect after a commit. */
  discard(): Promise<void>;
};

export type LocalDirectory = {
  readonly bucket: string;
  create(key: string): Promise<ObjectWriter>;
  freeBytes(): Promise<number>;
  listKeys(): Promise<string[]>;
  /** Of an object that is not there: nothing happens. */
  remove(key: string): Promise<void>;
};

/** Only one process may have it open: what an earlier one left unfinished is removed. */
export function openLocalDirectory(dir: string): LocalDirectory {
  const objects = join(dir, "objects");
  const incoming = join(dir, "incoming");
  rmSync(incoming, { recursive: true, force: true });
  for (const each of [objects, incoming]) mkdirSync(each, { recursive: true, mode: 0o700 });
  return {
    bucket: "local",
    async create(key) {
      const temporary = join(incoming, key);
      // The key is new: a file that is there already would be somebody else's.
      const file = await open(temporary, "wx", 0o600);
      return createWriter(file, { temporary, path: join(objects, key), objects });
    },
    async freeBytes() {
      const { bavail, bsize } = await statfs(objects);
      return bavail * bsize;
    },
    listKeys: () => readdir(objects),
    remove: (key) => rm(join(objects, key), { force: true }),
  };
}

function createWriter(
  file: FileHandle,
  { temporary, path, objects }: { temporary: string; path: string; objects: string },
): ObjectWriter {
  let closed = false;
  const close = async (): Promise<void> => {
    if (closed) return;
    closed = true;
    await file.close();
  };
  return {
    async write(chunk) {
      for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
    },
    async commit() {
      await file.datasync();
      await close();
      await rename(temporary, path);
      await syncDirectory(objects);
    },
    async discard() {
      await close();
      await rm(temporary, { force: true });
    },
  };
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
