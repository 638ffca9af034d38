// The version of this program, from its package.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export function readVersion(projectDir: string): string {
  const manifest = JSON.parse(readFileSync(join(projectDir, "package.json"), "utf8")) as { version: string };
  return manifest.version;
}
