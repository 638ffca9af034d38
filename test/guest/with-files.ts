// What tests of files inside share: a guest with a directory of its own, and what refusals look like.
import * as fs from "node:fs";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import type { Guest, GuestFiles } from "../../src/sandbox-api/machine.ts";
import { startGuest } from "./start-guest.ts";

export async function startWithFiles(): Promise<{ dir: string; guest: Guest; files: GuestFiles } & AsyncDisposable> {
  const guest = await startGuest();
  const connection = await guest.open();
  const dir = join(guest.dir, "files");
  fs.mkdirSync(dir);
  return {
    dir,
    guest: connection,
    files: connection.files,
    async [Symbol.asyncDispose]() {
      await connection[Symbol.asyncDispose]();
      await guest[Symbol.asyncDispose]();
    },
  };
}

export const missing = { code: "not_found", details: { errno: "ENOENT" } };

export function refused(errno: string): { code: string; details: { errno: string } } {
  return { code: "unprocessable", details: { errno } };
}

export async function readAll(
  files: GuestFiles,
  path: string,
  range?: { offset: number; length?: number },
): Promise<Buffer> {
  return buffer((await files.read(path, range)).body);
}
