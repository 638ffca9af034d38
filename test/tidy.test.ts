// Keeps the project's own rules: who may import whom, sizes, headers, where the environment is read, and that documents name real paths.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";
import { describe, test } from "node:test";
import { missingPaths } from "./tidy/documents.ts";
import { findCFunctions, findFunctions } from "./tidy/functions.ts";
import { blankNonCode, lineAt, projectRoot, readSources, type SourceFile } from "./tidy/source.ts";

const typescript = readSources(["src", "test", "bench", "scripts"], [".ts", ".mjs"]);
const c = readSources(["guest"], [".c", ".h"]);
const production = typescript.filter(({ path }) => path.startsWith("src/"));
const documents = [
  ...readSources(["docs", "images", "bench", "guest"], [".md"]),
  ...readSources(["."], [".md"]).filter(({ path }) => !path.includes("/")),
];

/** What each program of `src/` may import besides itself. */
const arrows: Record<string, string[]> = {
  core: [],
  contract: ["core"],
  "sandbox-api": ["contract", "core"],
  "control-plane": ["contract", "core"],
  edge: ["contract", "core"],
  cli: ["contract", "core"],
  host: ["sandbox-api", "contract", "core"],
  dev: ["host", "sandbox-api", "control-plane", "edge", "contract", "core"],
};

const linesWarned = 300;
const linesMax = 500;
const functionLinesMax = 70;

/** `catnap up` is handed the whole platform by the program's entry. */
const entryArrows: Record<string, string[]> = { "src/cli/main.ts": ["dev"] };

/** Besides every main.ts and config.ts: what passes the environment on to children, and the entry of a platform for tests. */
const environmentReaders = ["src/core/run-command.ts", "src/dev/serve.ts", "src/dev/spawn-platform.ts"];

type Import = { target: string; line: number };

/** Modules a file names in import and export declarations and in import(): what is in strings and comments otherwise does not count. */
function importsOf({ text }: SourceFile): Import[] {
  const code = blankNonCode(text);
  const declared = /\b(?:from|import)\s*\(?\s*(["'])([^"'\n]+)\1/g;
  return [...text.matchAll(declared)]
    .filter((match) => code.slice(match.index, match.index + 4) === match[0].slice(0, 4))
    .map((match) => ({ target: match[2]!, line: lineAt(text, match.index) }));
}

function assertNone(violations: string[]): void {
  assert.equal(violations.length, 0, `\n  ${violations.join("\n  ")}`);
}

describe("imports", () => {
  test("between programs go the allowed way", () => {
    const violations: string[] = [];
    for (const file of production) {
      const from = file.path.split("/")[1]!;
      for (const { target, line } of importsOf(file).filter((entry) => entry.target.startsWith("."))) {
        const path = normalize(join(dirname(file.path), target));
        const to = path.startsWith("src/") ? path.split("/")[1]! : path;
        const isData = path.endsWith(".json") && path.startsWith("images/");
        if (to !== from && !isData && ![...(arrows[from] ?? []), ...(entryArrows[file.path] ?? [])].includes(to))
          violations.push(`${file.path}:${line}: ${from} must not import ${to}`);
      }
    }
    assertNone(violations);
  });

  test("keep drivers apart from instances, and a service away from another noun's store", () => {
    const violations: string[] = [];
    for (const file of production) {
      for (const { target, line } of importsOf(file).filter((entry) => entry.target.startsWith("."))) {
        const path = normalize(join(dirname(file.path), target));
        if (file.path.startsWith("src/host/drivers/") && path.startsWith("src/host/instances/")) {
          violations.push(`${file.path}:${line}: drivers know nothing of instances`);
        }
        const noun = dirname(path);
        const isNounsStore =
          noun !== "src/control-plane" && path.startsWith("src/control-plane/") && basename(path) === "store.ts";
        // Files beside the nouns put the parts together.
        const isWithinNoun = file.path.startsWith("src/control-plane/") && dirname(file.path) !== "src/control-plane";
        if (isNounsStore && isWithinNoun && dirname(file.path) !== noun) {
          violations.push(`${file.path}:${line}: the store belongs to ${noun}; ask its service`);
        }
      }
    }
    assertNone(violations);
  });

  test("name files in full, and never tests", () => {
    const violations: string[] = [];
    for (const file of typescript) {
      for (const { target, line } of importsOf(file).filter((entry) => entry.target.startsWith("."))) {
        if (!/\.(ts|mjs|json)$/.test(target)) violations.push(`${file.path}:${line}: ${target} has no ending`);
        const path = normalize(join(dirname(file.path), target));
        if (!file.path.startsWith("test/") && path.startsWith("test/"))
          violations.push(`${file.path}:${line}: nothing imports tests`);
      }
    }
    assertNone(violations);
  });

  test("pass through no barrel", () => {
    const barrels = production.filter(({ text }) => /^export \* from/m.test(text) || /(^|\/)index\.ts$/.test(text));
    assertNone(barrels.map(({ path }) => `${path}: import from where things are, not from a list of them`));
  });
});

describe("files", () => {
  test("begin with a sentence that says what they are for", () => {
    const lacking = [...typescript, ...c].filter(
      ({ text }) => !/^(#!.*\n)?\s*(\/\/ |\/\*\*?\s*(\*\s)?)\S.{14,}/.test(text),
    );
    assertNone(lacking.map(({ path }) => `${path}: the first line is no comment that says what the file is for`));
  });

  test(`have at most ${linesMax} lines`, (t) => {
    const sizes = [...typescript, ...c].map(({ path, text }) => ({ path, lines: text.trimEnd().split("\n").length }));
    for (const { path, lines } of sizes)
      if (lines > linesWarned && lines <= linesMax) t.diagnostic(`${path} has ${lines} lines: split it`);
    assertNone(sizes.filter(({ lines }) => lines > linesMax).map(({ path, lines }) => `${path} has ${lines} lines`));
  });

  test("say what they are about in their names", () => {
    const vague = /(^|[-/.])(utils?|helpers?|common|misc|types|index|stuff)([-/.]|$)/;
    assertNone(
      [...typescript, ...c]
        .filter(({ path }) => vague.test(path))
        .map(({ path }) => `${path}: name the thing it is about`),
    );
  });

  test("have no leftovers of work in progress", () => {
    const markers = /\b(TODO|FIXME|XXX|HACK)\b|\b(test|describe|it|suite)\.only\(|\bdebugger;/g;
    const violations = [...typescript, ...c]
      .filter(({ path }) => path !== "test/tidy.test.ts")
      .flatMap(({ path, text }) =>
        [...text.matchAll(markers)].map((match) => `${path}:${lineAt(text, match.index)}: ${match[0]}`),
      );
    assertNone(violations);
  });
});

test(`functions have at most ${functionLinesMax} lines`, () => {
  const spans = [
    ...typescript.map(({ path, text }) => ({ path, functions: findFunctions(text) })),
    ...c.map(({ path, text }) => ({ path, functions: findCFunctions(text) })),
  ];
  const violations = spans.flatMap(({ path, functions }) =>
    functions
      // A list of tests is as long as its tests; only what stands between them counts.
      .map((span) => ({ ...span, counted: path.startsWith("test/") ? span.ownLines : span.lines }))
      .filter(({ counted }) => counted > functionLinesMax)
      .map(({ line, counted, header }) => `${path}:${line}: ${counted} lines: ${header.slice(0, 60)}`),
  );
  assertNone(violations);
});

test("only main.ts and config.ts read the environment", () => {
  const violations = production
    .filter(({ path }) => !["main.ts", "config.ts"].includes(basename(path)) && !environmentReaders.includes(path))
    .flatMap(({ path, text }) => {
      const code = blankNonCode(text);
      return [...code.matchAll(/\bprocess\s*\.\s*env\b/g)].map(
        (match) => `${path}:${lineAt(text, match.index)}: reads the environment`,
      );
    });
  assertNone(violations);
});

test("documents name paths that exist", () => {
  assertNone(
    documents.flatMap(({ path, text }) =>
      missingPaths(path, text).map((missing) => `${path}: ${missing} does not exist`),
    ),
  );
});

test("decisions have a number each", () => {
  const names = readdirSync(join(projectRoot, "docs/decisions")).filter(
    (name) => name.endsWith(".md") && name !== "README.md",
  );
  const numbers = names.map((name) => /^(\d{4})-[a-z0-9-]+\.md$/.exec(name)?.[1]);
  assertNone(names.filter((_, index) => numbers[index] === undefined || numbers.indexOf(numbers[index]) !== index));
});

describe("the scanner of functions", () => {
  const body = "\n  work();".repeat(3);
  const cases: [string, string, number[]][] = [
    ["a function", `function a(b: { c: string }): void {${body}\n}`, [5]],
    ["a method with a return type", `class A {\n  async b(): Promise<Map<string, number>> {${body}\n  }\n}`, [5]],
    ["an arrow", `const a = () => {${body}\n};`, [5]],
    ["no block", `if (a(b)) {${body}\n}\nfor (const x of y()) {${body}\n}`, []],
    ["no object and no type", `const a = {\n  b: 1,\n};\ntype C = {\n  d: string;\n};`, []],
    [
      "braces in strings, templates, comments and expressions",
      'function a() {\n  return `${b({ c: "}" })} }` + "{" + /[/{]\\/{/.test(x); // {\n}',
      [3],
    ],
  ];
  for (const [what, text, lengths] of cases) {
    test(`sees ${what}`, () =>
      assert.deepEqual(
        findFunctions(text).map(({ lines }) => lines),
        lengths,
      ));
  }
});
