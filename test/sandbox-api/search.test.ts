// Files are found by name, ranked against a query and searched for texts, within bounds and without a pattern that costs much.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { compileGlob } from "../../src/sandbox-api/search/glob.ts";
import { MatchParser } from "../../src/sandbox-api/search/match-parser.ts";
import { TestSandbox } from "./harness.ts";

type Matches = {
  matches: { path: string; type?: string; line?: number; column?: number; text?: string }[];
  total: number;
};

async function startWithProject(): Promise<TestSandbox> {
  const sandbox = await TestSandbox.start();
  const files: Record<string, string> = {
    "README.md": "# Project\nFind the Needle here.\n",
    "src/index.ts": 'export const needle = "hay";\nexport const other = 1;\n',
    "src/deep/er/needle.test.ts": "// nothing\n",
    "src/.env": "NEEDLE=1\n",
    ".git/config": "needle\n",
    "node_modules/needle/index.js": "needle\n",
    "data.bin": "\0\0needle\0",
  };
  for (const [path, content] of Object.entries(files)) {
    fs.mkdirSync(join(sandbox.workingDir, path, ".."), { recursive: true });
    fs.writeFileSync(join(sandbox.workingDir, path), content);
  }
  return sandbox;
}

async function ask(sandbox: TestSandbox, path: string): Promise<Matches & { query?: string }> {
  const answer = await sandbox.ask("GET", path);
  assert.equal(answer.status, 200, answer.text);
  const body = answer.json as Matches;
  assert.equal(body.total, body.matches.length);
  return body;
}

const pathsOf = ({ matches }: Matches): string[] => matches.map(({ path }) => path).sort();

test("files are found by globs, hidden and generated ones only when asked for", async () => {
  await using sandbox = await startWithProject();
  assert.deepEqual(pathsOf(await ask(sandbox, "/filesystem-find")), [
    "README.md",
    "data.bin",
    "src/deep/er/needle.test.ts",
    "src/index.ts",
  ]);
  assert.deepEqual(pathsOf(await ask(sandbox, "/filesystem-find/?patterns=*.ts,*.md")), [
    "README.md",
    "src/deep/er/needle.test.ts",
    "src/index.ts",
  ]);
  assert.deepEqual(pathsOf(await ask(sandbox, "/filesystem-find/src?patterns=*.ts&maxResults=1")).length, 1);
  assert.deepEqual(pathsOf(await ask(sandbox, "/filesystem-find?patterns=**/er/*")), ["src/deep/er/needle.test.ts"]);
  assert.deepEqual(
    pathsOf(await ask(sandbox, "/filesystem-find?excludeHidden=false&excludeDirs=&maxResults=0")).length,
    7,
  );
  assert.deepEqual(await ask(sandbox, "/filesystem-find?type=directory"), {
    matches: [
      { path: "src", type: "directory" },
      { path: "src/deep", type: "directory" },
      { path: "src/deep/er", type: "directory" },
    ],
    total: 3,
  });
  for (const query of ["type=socket", "maxResults=-1", "maxResults=many", "maxResults=1.5", "maxResults=true"]) {
    assert.equal((await sandbox.ask("GET", `/filesystem-find?${query}`)).status, 400, query);
  }
  assert.equal((await sandbox.ask("GET", "/filesystem-find/README.md")).status, 422);
  for (const path of [
    "/filesystem-find/nothing",
    "/filesystem-search/nothing/name",
    "/filesystem-search/nothing?query=a",
  ]) {
    const { status, json } = await sandbox.ask("GET", path);
    assert.equal(status, 422, path);
    assert.match((json as { error: string }).error, /nothing' is no directory/, path);
  }
});

test("names are ranked against a query, which may be the end of the path", async () => {
  await using sandbox = await startWithProject();
  const [best] = (await ask(sandbox, "/filesystem-search?query=indts")).matches;
  assert.equal(best?.path, "src/index.ts");
  const encoded = encodeURIComponent(join(sandbox.workingDir, "needltest"));
  assert.deepEqual(pathsOf(await ask(sandbox, `/filesystem-search/${encoded}`)), ["src/deep/er/needle.test.ts"]);
  assert.deepEqual(pathsOf(await ask(sandbox, "/filesystem-search?query=zzzz")), []);
  assert.equal((await sandbox.ask("GET", "/filesystem-search/%2F")).status, 400);
});

test("contents are searched for the text itself, with lines and columns from 1", async () => {
  await using sandbox = await startWithProject();
  const found = await ask(sandbox, "/filesystem-content-search?query=needle");
  assert.equal(found.query, "needle");
  assert.deepEqual(
    found.matches.sort((a, b) => (a.path < b.path ? -1 : 1)),
    [
      { path: "README.md", line: 2, column: 10, text: "Find the Needle here." },
      { path: "src/.env", line: 1, column: 1, text: "NEEDLE=1" },
      { path: "src/index.ts", line: 1, column: 14, text: 'export const needle = "hay";' },
    ],
  );
  const paths = async (query: string) => pathsOf(await ask(sandbox, `/filesystem-content-search?query=${query}`));
  assert.deepEqual(await paths("needle&caseSensitive=true"), ["src/index.ts"]);
  assert.deepEqual(await paths("needle&filePattern=*.md"), ["README.md"]);
  assert.deepEqual(await paths("needle&filePattern=*.js&excludeDirs="), ["node_modules/needle/index.js"]);
  assert.deepEqual(await paths("n..dle"), []);
  assert.deepEqual(await paths("absent"), []);
  assert.deepEqual(await paths("-e"), []);
  assert.deepEqual((await ask(sandbox, "/filesystem-content-search?query=e&maxResults=2")).total, 2);
  for (const query of ["", "query=", "query=a&maxResults=-1", `query=${"a".repeat(1_025)}`, "query=a%00b"]) {
    assert.equal((await sandbox.ask("GET", `/filesystem-content-search?${query}`)).status, 400, query);
  }
  assert.equal((await sandbox.ask("GET", "/filesystem-content-search/nothing?query=a")).status, 422);
  assert.equal((await sandbox.ask("GET", "/filesystem-content-search?query=a&filePattern=[")).status, 422);
});

test("a search leaves nothing among the processes, and many at once are all answered", async () => {
  await using sandbox = await startWithProject();
  const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index} of many`).join("\n");
  for (let index = 0; index < 20; index++) fs.writeFileSync(join(sandbox.workingDir, `many-${index}`), lines);
  const answers = await Promise.all(
    Array.from({ length: 12 }, () => ask(sandbox, "/filesystem-content-search?query=line&maxResults=0")),
  );
  assert.deepEqual([...new Set(answers.map(({ total }) => total))], [1_000]);
  assert.deepEqual((await sandbox.ask("GET", "/process")).json, []);
});

test("a very long line is cut, and a name with the end of a line in it is told as it is", async () => {
  await using sandbox = await startWithProject();
  fs.writeFileSync(join(sandbox.workingDir, "long"), `${"x".repeat(5_000_000)}haystack\n`);
  fs.writeFileSync(join(sandbox.workingDir, "two\nlines"), "haystack\n");
  const { matches } = await ask(sandbox, "/filesystem-content-search?query=haystack");
  assert.deepEqual(matches.map(({ path }) => path).sort(), ["long", "two\nlines"]);
  assert.ok(matches.every(({ text }) => text!.length < 3_000));
});

describe("globs", () => {
  const cases: [pattern: string, path: string, matches: boolean][] = [
    ["*.ts", "a/b.ts", true],
    ["*.ts", "a.tsx", false],
    ["a/*.ts", "a/b.ts", true],
    ["a/*.ts", "a/b/c.ts", false],
    ["a/**/*.ts", "a/b/c.ts", true],
    ["a/**/*.ts", "a/c.ts", true],
    ["a/**/c", "a/bc", false],
    ["**/c", "c", true],
    ["**/c", "a/b/c", true],
    ["**/c", "bc", false],
    ["**c", "a/bc", true],
    ["?", "é", true],
    ["[a-c]x", "bx", true],
    ["[!a-c]x", "bx", false],
    ["[", "[", true],
    ["\\*", "*", true],
    ["\\*", "a", false],
    ["", "", true],
  ];
  for (const [pattern, path, matches] of cases) {
    test(`${pattern} ${matches ? "matches" : "does not match"} ${path}`, () => {
      assert.equal(compileGlob(pattern).matches(path), matches);
    });
  }

  test("a text matches itself when it is escaped, and everything matches a star", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const name = text.replaceAll("/", "");
        assert.ok(compileGlob(name.replaceAll(/[*?[\]\\]/g, "\\$&")).matches(name));
        assert.ok(compileGlob("*").matches(name));
      }),
    );
  });

  test("many stars on a long name are answered without trying every way", () => {
    assert.equal(compileGlob(`${"*a".repeat(500)}b`).matches("a".repeat(4_000)), false);
  });
});

test("what the search prints is read the same however it is cut", () => {
  const text = "./a\x001:2:text\n./b\nc\x0010:1:with: colons\0and zeros\n./d\0x:1:no line\n./e\x003:4:last\n";
  const printed = Buffer.from(text);
  const read = (size: number): object[] => {
    const matches: object[] = [];
    const parser = new MatchParser((match) => matches.push(match));
    for (let at = 0; at < printed.length; at += size) parser.push(printed.subarray(at, at + size));
    return matches;
  };
  assert.deepEqual(read(printed.length), [
    { path: "a", line: 1, column: 2, text: "text" },
    { path: "b\nc", line: 10, column: 1, text: "with: colons\0and zeros" },
    { path: "e", line: 3, column: 4, text: "last" },
  ]);
  for (const size of [1, 2, 3, 7, 20]) assert.deepEqual(read(size), read(printed.length));
});
