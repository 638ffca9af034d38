// What runs here: the package's version and, in a checkout, the commit.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export type Version = { version: string; commit: string };

export function readVersion(projectRoot: string): Version {
  const manifest = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8")) as { version: string };
  return { version: manifest.version, commit: readCommit(join(projectRoot, ".git")) };
}

/** Reads the checkout's files directly, because starting git would cost more than the rest of the start. */
function readCommit(gitDir: string): string {
  try {
    const head = readFileSync(join(gitDir, "HEAD"), "utf8").trim();
    if (!head.startsWith("ref: ")) return head;
    return readFileSync(join(gitDir, head.slice(5)), "utf8").trim();
  } catch {
    return "unknown";
  }
}
