// Tells a database that is older than what this machine has seen of it: after a copy was restored, or another database was named.
// Instances that such a database does not know may be sandboxes it has forgotten: they are set aside, not deleted.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeFileAtomic } from "../../core/atomic-file.ts";
import type { Logger } from "../../core/log.ts";
import type { Database } from "../db/database.ts";

export type RestoreGuardOptions = {
  database: Database;
  /** Of this machine; what is in it is never restored together with the database. */
  dir: string;
  log: Logger;
};

export type RestoreGuard = ReturnType<typeof createRestoreGuard>;

export function createRestoreGuard({ database, dir, log }: RestoreGuardOptions) {
  const seenPath = join(dir, "generation");
  const asidePath = join(dir, "set-aside-instances");
  const generation = database.prepareRead<{ generation: number }>("select generation from installation");

  /** First in the database and then here, so that a crash between both looks like nothing at all. */
  const advance = async (next: number): Promise<void> => {
    await database.kysely.updateTable("installation").set({ generation: next }).execute();
    await database.flush();
    writeFileAtomic(seenPath, `${next}\n`, { durable: true });
  };

  return {
    /** The instances without a sandbox that may be deleted. Asked once in each pass. */
    async admit(orphans: readonly string[]): Promise<string[]> {
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      const stored = (await generation.first())?.generation ?? 0;
      const seen = readSeen(seenPath, stored);
      const aside = new Set(readLines(asidePath));
      if (seen > stored) {
        const found = orphans.filter((instanceId) => !aside.has(instanceId));
        for (const instanceId of found) aside.add(instanceId);
        // Before the database catches up: a crash in between must find it old again.
        if (found.length > 0) writeFileAtomic(asidePath, `${[...aside].join("\n")}\n`, { durable: true });
        const fields = { instances: found, file: asidePath };
        log.error(fields, "the database is older than this machine: instances that it does not know are set aside");
      }
      await advance(Math.max(seen, stored) + 1);
      return orphans.filter((instanceId) => !aside.has(instanceId));
    },
  };
}

/** A file that makes no sense counts as newer: nothing is deleted because of it. */
function readSeen(path: string, stored: number): number {
  const [line] = readLines(path);
  if (line === undefined) return 0;
  return /^\d{1,15}$/.test(line) ? Number(line) : stored + 1;
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8")
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
