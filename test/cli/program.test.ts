// The command line as a whole: help of every command, and what a wrong call is told.
import assert from "node:assert/strict";
import { test } from "node:test";
import { commands } from "../../src/cli/command-list.ts";
import { cli } from "./run-cli.ts";

for (const { path, summary } of commands) {
  const name = path.join(" ");
  test(`${name} explains itself, asked in either way`, async () => {
    const run = await cli([...path, "--help"]);
    assert.equal(run.exitCode, 0);
    const description = summary.slice(0, 1).toUpperCase() + summary.slice(1);
    assert.ok(run.stdout.startsWith(`Usage: catnap ${name} `), run.stdout);
    assert.ok(run.stdout.replaceAll(/\s+/g, " ").includes(`${description}.`), run.stdout);
    assert.deepEqual(await cli(["help", ...path]), run);
  });
}

test("all commands are listed, once", async () => {
  const { stdout } = await cli(["--help"]);
  for (const { path } of commands) assert.match(stdout, new RegExp(`^  ${path[0]} `, "m"));
  const names = commands.map(({ path }) => path.join(" "));
  assert.equal(new Set(names).size, names.length);
});

const wrong: [args: string[], exitCode: number, told: RegExp][] = [
  [["nonsense"], 2, /Unknown command 'nonsense'\n {2}`catnap --help` shows how\./],
  [["nonsense", "--help"], 2, /Unknown command 'nonsense'/],
  [["help", "nonsense"], 2, /Unknown command 'nonsense'/],
  [
    ["sandbox", "lst", "-h"],
    2,
    /Unknown command 'lst' \(did you mean list\?\)\n {2}`catnap sandbox --help` shows how\./,
  ],
  [["sandbox", "get"], 2, /Missing required argument 'name'\n {2}`catnap sandbox get --help` shows how\./],
  [["sandbox", "list", "--colour"], 2, /Unknown option '--colour'\n {2}`catnap sandbox list --help` shows how\./],
  [["exec", "dev"], 125, /Missing required argument 'command'\n {2}`catnap exec --help` shows how\./],
  [["sandbox"], 2, /^Usage: catnap sandbox /],
];
for (const [args, exitCode, told] of wrong) {
  test(`catnap ${args.join(" ")} ends with ${exitCode} and says where to look`, async () => {
    const run = await cli(args);
    assert.deepEqual([run.exitCode, run.stdout], [exitCode, ""]);
    assert.match(run.stderr, told);
  });
}
