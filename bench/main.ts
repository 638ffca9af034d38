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

const suites: Record<string, { run: () => Promise<Result[]>; measures: string }> = {
  wake: {
    run: benchWakeAndMemory,
    measures: "the first byte of a request to a sleeping sandbox, with 200 asleep, and their memory",
  },
  create: { run: benchCreate, measures: "from the request to the end of the first command" },
  exec: { run: benchExec, measures: "`true` through the sandbox API" },
  parallel: { run: benchParallel, measures: "a hundred commands at once, on one and on ten sandboxes" },
  stream: { run: benchStream, measures: "a command's output, as a stream and as its log" },
  transfer: { run: benchTransfer, measures: "256 MiB up and down" },
  files: { run: benchFiles, measures: "files of 1 KiB, written and read sixteen at once" },
  search: { run: benchSearch, measures: "searches in small and large trees, warm and from the disk" },
  get: { run: benchGet, measures: "`GET /v0/sandboxes/{name}`" },
  store: { run: benchStore, measures: "the database with a thousand and with a million sandboxes" },
};

const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !Object.hasOwn(suites, name));
if (wanted.includes("--help") || wanted.includes("-h")) {
  console.log(`Usage: npm run bench [-- NAME...]

Measures this machine, prints each figure beside a bare baseline of the same run and writes them as JSON. Some take
minutes, and all want the machine to themselves. Without a name all are run:

${Object.entries(suites)
  .map(([name, { measures }]) => `  ${name.padEnd(9)} ${measures}`)
  .join("\n")}`);
  process.exit(0);
}
if (unknown !== undefined) {
  console.error(`bench: There is no benchmark '${unknown}'.\n  \`npm run bench -- --help\` lists them.`);
  process.exit(2);
}

const results: Result[] = [];
for (const [name, { run }] of Object.entries(suites)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\nmeasuring ${name} ...`);
  const measured = await run();
  for (const result of measured) printResult(result);
  results.push(...measured);
}
const path = writeResults(fileURLToPath(new URL("results", import.meta.url)), results);
console.log(`\n${results.filter(({ met }) => met).length} of ${results.length} goals met; figures in ${path}`);
