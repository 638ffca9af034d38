// Searches inside sandboxes against the commands a user would type, run through exec: small and large trees, warm and from the disk, two cores and a quarter of one.
import { spawnPlatform } from "../../src/dev/spawn-platform.ts";
import { Connection, expectOk } from "../http-client.ts";
import type { Result } from "../report.ts";
import { sample, summarize } from "../stats.ts";
import { createSandbox, pathOf } from "./fleet.ts";

const rounds = 7;

type Tree = { name: string; directory: string; make: string };

const trees: readonly Tree[] = [
  tree("200 small files", "few", 2, 100, "'line\\n'"),
  // As large as source files are in the middle of most projects.
  tree("2,000 files of 12 KB", "source", 20, 100, "'    a line of a program, as long as most are\\n' * 270"),
  // The worst there is: nothing but opening and closing.
  tree("20,000 files of 5 bytes", "many", 100, 200, "'line\\n'"),
];

function tree(name: string, directory: string, directories: number, files: number, content: string): Tree {
  const program = [
    "import os",
    `for d in range(${directories}):`,
    `  os.makedirs(f"/srv/${directory}/d{d}")`,
    `  for f in range(${files}):`,
    `    with open(f"/srv/${directory}/d{d}/f{f}.txt", "w") as file: file.write(${content})`,
    `with open("/srv/${directory}/d1/found.txt", "w") as file: file.write("a needle in the tree\\n")`,
  ].join("\n");
  return { name, directory: `/srv/${directory}`, make: `python3 -c '${program.replaceAll("'", `'"'"'`)}'` };
}

/** Leaves the names in memory and drops the contents. */
const dropContents = (directory: string): string =>
  `sync; find ${directory} -type f -print0 | xargs -0 python3 -c 'import os,sys
for path in sys.argv[1:]:
  fd = os.open(path, os.O_RDONLY); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.close(fd)'`;

type Sides = { get(path: string): Promise<unknown>; exec(command: string): Promise<unknown> };
type Question = { name: string; path: string; command: string; before?: string };

async function compare({ get, exec }: Sides, { name, path, command, before }: Question): Promise<Result> {
  await get(path);
  await exec(command);
  const measured: number[] = [];
  const shell: number[] = [];
  for (let round = 0; round < rounds; round++) {
    if (before !== undefined) await exec(before);
    measured.push(...(await sample(1, () => get(path))));
    if (before !== undefined) await exec(before);
    shell.push(...(await sample(1, () => exec(command))));
  }
  const [own, other] = [summarize(measured).median, summarize(shell).median];
  return {
    name,
    unit: "ms",
    measured: { median: own },
    baseline: { exec_median: other },
    goal: `at most the time of \`${command}\` through the API`,
    value: own / other,
    met: own <= other,
  };
}

function questionsFor({ name, directory }: Tree, size: string): Question[] {
  const path = encodeURIComponent(directory);
  const contents = `/filesystem-content-search/${path}?query=needle`;
  const where = `${name}, ${size}`;
  return [
    {
      name: `a name in ${where}`,
      path: `/filesystem-find/${path}?patterns=found.txt`,
      command: `find ${directory} -type f -name found.txt`,
    },
    {
      name: `a text in ${where}`,
      path: `${contents}&caseSensitive=true`,
      command: `grep -rn needle ${directory}`,
    },
    { name: `a text in any case in ${where}`, path: contents, command: `grep -rni needle ${directory}` },
    {
      name: `a text in any case in ${where}, from the disk`,
      path: contents,
      command: `grep -rni needle ${directory}`,
      before: dropContents(directory),
    },
  ];
}

export async function benchSearch(): Promise<Result[]> {
  await using platform = await spawnPlatform({ CATNAP_IDLE_TIMEOUT: "60s" });
  const results: Result[] = [];
  for (const [size, memoryMb, wanted] of [
    ["two cores", 4096, trees],
    ["a quarter of a core", 512, trees.slice(1, 2)],
  ] as const) {
    const sandbox = await createSandbox(platform, { memoryMb });
    using connection = await Connection.open(platform.url, { authorization: `Bearer ${platform.apiKey}` });
    const base = pathOf(sandbox);
    const exec = (command: string): Promise<unknown> => {
      const body = JSON.stringify({ command, waitForCompletion: true, timeout: 120 });
      return connection.request("POST", `${base}/process`, body).then(expectOk);
    };
    const get = (path: string): Promise<unknown> => connection.request("GET", `${base}${path}`).then(expectOk);
    for (const tree of wanted) {
      await exec(tree.make);
      for (const question of questionsFor(tree, size)) results.push(await compare({ get, exec }, question));
    }
  }
  return results;
}
