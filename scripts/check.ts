// `npm run check`: types, lint and format of the whole project; `--write` mends what can be mended.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const biome = `node_modules/@biomejs/cli-linux-${process.arch}/biome`;
const steps: [string, string[]][] = [
  [biome, ["check", ...(process.argv.includes("--write") ? ["--write"] : []), "."]],
  ["node_modules/.bin/tsc", ["--noEmit"]],
];
let failed = false;
for (const [program, args] of steps) {
  failed = spawnSync(program, args, { cwd: root, stdio: "inherit" }).status !== 0 || failed;
}
process.exitCode = failed ? 1 : 0;
