// Changes come as lines of JSON while they happen, for a directory or a tree, and end with the connection.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { TestSandbox } from "./harness.ts";

type Told = { op: string; name: string; path: string; error: string | null };

/** Resolves once the watch has begun. */
async function watch(sandbox: TestSandbox, path: string) {
  const told: Told[] = [];
  const started = Promise.withResolvers<number>();
  const request = get(`${sandbox.url}/watch/filesystem/${path}`, (response) => {
    let rest = "";
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      if (response.statusCode === 200) told.push(...lines.map((line) => JSON.parse(line) as Told));
    });
    response.on("error", () => undefined);
    started.resolve(response.statusCode ?? 0);
  });
  request.on("error", started.reject);
  const status = await started.promise;
  return {
    status,
    told,
    async untilTold(op: string, name: string): Promise<Told> {
      return eventually(() => {
        const found = told.find((change) => change.op === op && change.name === name);
        return found ?? assert.fail(`no ${op} of ${name} among ${JSON.stringify(told)}`);
      });
    },
    [Symbol.dispose]: () => void request.destroy(),
  };
}

test("a directory is watched without what is below, a tree with it", async () => {
  await using sandbox = await TestSandbox.start();
  const { workingDir } = sandbox;
  fs.mkdirSync(join(workingDir, "below"));
  using flat = await watch(sandbox, "");
  using deep = await watch(sandbox, encodeURIComponent(`${workingDir}/**`));
  fs.writeFileSync(join(workingDir, "below/inner"), "1");
  fs.writeFileSync(join(workingDir, "outer"), "1");
  assert.deepEqual(await deep.untilTold("WRITE", "inner"), {
    op: "WRITE",
    name: "inner",
    path: join(workingDir, "below"),
    error: null,
  });
  await flat.untilTold("WRITE", "outer");
  assert.ok(!flat.told.some(({ name }) => name === "inner"));
  fs.rmSync(join(workingDir, "outer"));
  await flat.untilTold("REMOVE", "outer");
  fs.renameSync(join(workingDir, "below/inner"), join(workingDir, "below/other"));
  await deep.untilTold("RENAME", "inner");
  await deep.untilTold("CREATE", "other");
  fs.chmodSync(join(workingDir, "below/other"), 0o600);
  await deep.untilTold("CHMOD", "other");
});

test("what is ignored is not told", async () => {
  await using sandbox = await TestSandbox.start();
  using watching = await watch(sandbox, "?ignore=node_modules,.tmp");
  fs.writeFileSync(join(sandbox.workingDir, "a.tmp"), "");
  fs.mkdirSync(join(sandbox.workingDir, "node_modules"));
  fs.writeFileSync(join(sandbox.workingDir, "seen"), "");
  await watching.untilTold("CREATE", "seen");
  assert.deepEqual([...new Set(watching.told.map(({ name }) => name))], ["seen"]);
});

test("what does not exist is refused before anything is sent", async () => {
  await using sandbox = await TestSandbox.start();
  using watching = await watch(sandbox, "nothing");
  assert.equal(watching.status, 400);
});

test("a caller that leaves gives its place back", async () => {
  await using sandbox = await TestSandbox.start();
  for (let round = 0; round < 30; round++) {
    // The places of those that have just left may still be taken.
    await eventually(async () => {
      using watching = await watch(sandbox, "");
      assert.equal(watching.status, 200);
    });
  }
});
