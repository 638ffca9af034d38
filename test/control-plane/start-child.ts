// Starts a control plane in a process of its own, for tests that kill it.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Killed at the latest when it goes out of scope. */
export type Child = AsyncDisposable & {
  url: string;
  apiKey: string;
  /** The next line it prints, parsed. */
  read(): Promise<Record<string, string>>;
  kill(): Promise<void>;
};

export async function startChild(
  dataDir: string,
  mode: "work" | "hang" | "hang-rebuild",
  apiKey?: string,
): Promise<Child> {
  const script = fileURLToPath(new URL("crash-child.ts", import.meta.url));
  const args = [script, dataDir, mode, ...(apiKey === undefined ? [] : [apiKey])];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const read = async (): Promise<Record<string, string>> => {
    const { value, done } = await lines.next();
    if (done) assert.fail("the child ended early");
    return JSON.parse(value);
  };
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  const { url = "", apiKey: key = "" } = await read();
  return { url, apiKey: key, read, kill, [Symbol.asyncDispose]: kill };
}

export function temporaryDir(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), "catnap-control-plane-crash-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}
