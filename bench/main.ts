// `npm run bench [-- NAME...]`: runs the benchmarks on real instances, prints figures beside their baselines and writes JSON.
import { fileURLToPath } from "node:url";
import { printResult, type Result, writeResults } from "./report.ts";
import { benchCreate } from "./suites/create.ts";
import { benchExec } from "./suites/exec.ts";
import { benchFiles } from "./suites/files.ts";
import { benchGet } from "./suites/get.ts";
import { benchParallel } from "./suites/parallel.ts";
import { benchSearch } from "./suites/search.ts";
import { benchStore } from "./suites/store.ts";
import { benchStream } from "./suites/stream.ts";
import { benchTransfer } from "./suites/transfer.ts";
import { benchWakeAndMemory } from "./suites/wake.ts";

const suites: Record<string, () => Promise<Result[]>> = {
  wake: benchWakeAndMemory,
  create: benchCreate,
  exec: benchExec,
  parallel: benchParallel,
  stream: benchStream,
  transfer: benchTransfer,
  files: benchFiles,
  search: benchSearch,
  get: benchGet,
  store: benchStore,
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in suites));
if (wanted.includes("--help") || unknown.length > 0) {
  console.log(`usage: npm run bench [-- ${Object.keys(suites).join(" | ")} ...]`);
  process.exit(wanted.includes("--help") ? 0 : 2);
}

const results: Result[] = [];
for (const [name, run] of Object.entries(suites)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\nmeasuring ${name} ...`);
  const measured = await run();
  for (const result of measured) printResult(result);
  results.push(...measured);
}
const path = writeResults(fileURLToPath(new URL("results", import.meta.url)), results);
console.log(`\n${results.filter(({ met }) => met).length} of ${results.length} goals met; figures in ${path}`);
