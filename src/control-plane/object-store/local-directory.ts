// Objects as files of a directory: written beside their place, synced and then named, so that an object is whole or absent.
import { mkdirSync, rmSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rm, statfs } from "node:fs/promises";
import { join } from "node:path";

/** Bytes that wait for the disk before their sender has to. */
const queueMaxBytes = 1024 * 1024;

export type ObjectWriter = {
  /** Resolves when more may come; an error is thrown at the latest by `commit`. */
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
  let queue: Buffer[] = [];
  let queuedBytes = 0;
  let writing: Promise<void> | undefined;
  let failure: unknown;
  const close = async (): Promise<void> => {
    if (closed) return;
    closed = true;
    await writing;
    await file.close();
  };
  // What has come while the disk was busy is written at once.
  const writeQueue = async (): Promise<void> => {
    try {
      while (queue.length > 0 && failure === undefined) {
        const batch = queue;
        queue = [];
        queuedBytes = 0;
        await writeAll(file, batch);
      }
    } catch (error) {
      failure = error;
    } finally {
      writing = undefined;
    }
  };
  return {
    async write(chunk) {
      queue.push(chunk);
      queuedBytes += chunk.length;
      writing ??= writeQueue();
      if (queuedBytes >= queueMaxBytes) await writing;
      if (failure !== undefined) throw failure;
    },
    async commit() {
      await writing;
      if (failure !== undefined) throw failure;
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

/** A system that has too little space left writes a part first and fails at the rest. */
async function writeAll(file: FileHandle, batch: Buffer[]): Promise<void> {
  const { bytesWritten } = await file.writev(batch);
  let rest = Buffer.alloc(0);
  if (bytesWritten < batch.reduce((sum, { length }) => sum + length, 0))
    rest = Buffer.concat(batch).subarray(bytesWritten);
  while (rest.length > 0) rest = rest.subarray((await file.write(rest)).bytesWritten);
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
