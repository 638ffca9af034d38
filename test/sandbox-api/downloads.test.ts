// Downloads of files over HTTP: which answer is raw, ranges, versions, HEAD.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { FileWithContent } from "../../src/contract/sandbox-api/filesystem.ts";
import { TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

const work = (name: string): string => join(sandbox.workingDir, name);

const accepts: [string | undefined, boolean][] = [
  [undefined, false],
  ["*/*", false],
  ["application/json", false],
  ["text/html,*/*;q=0.8", false],
  ["application/octet-stream", true],
  ["application/octet-stream, */*", true],
  ["image/png", true],
];
for (const [accept, isRaw] of accepts) {
  test(`Accept ${accept ?? "(none)"} is answered with ${isRaw ? "bytes" : "JSON"}`, async () => {
    writeFileSync(work("accept.png"), "content");
    const answer = await sandbox.ask("GET", "/filesystem/accept.png", {
      headers: accept === undefined ? {} : { accept },
    });
    if (!isRaw) return assert.equal((answer.json as FileWithContent).content, "content");
    assert.equal(answer.text, "content");
    assert.equal(answer.headers["content-type"], "image/png");
    assert.equal(answer.headers["content-length"], "7");
    assert.equal(answer.headers["accept-ranges"], "bytes");
    assert.match(answer.headers["content-disposition"]!, /^attachment; filename="accept.png"/);
  });
}

const ranges: [range: string, status: number, body: string, contentRange: string | undefined][] = [
  ["bytes=0-3", 206, "0123", "bytes 0-3/10"],
  ["bytes=4-", 206, "456789", "bytes 4-9/10"],
  ["bytes=-3", 206, "789", "bytes 7-9/10"],
  ["bytes=-99", 206, "0123456789", "bytes 0-9/10"],
  ["bytes=9-99", 206, "9", "bytes 9-9/10"],
  ["bytes=0-0", 206, "0", "bytes 0-0/10"],
  ["bytes=10-", 416, "", "bytes */10"],
  ["bytes=-0", 416, "", "bytes */10"],
  ["bytes=3-2", 200, "0123456789", undefined],
  ["bytes=0-1,3-4", 200, "0123456789", undefined],
  ["bytes=a-b", 200, "0123456789", undefined],
  ["lines=0-1", 200, "0123456789", undefined],
];
for (const [range, status, body, contentRange] of ranges) {
  test(`Range ${range} is ${status}`, async () => {
    writeFileSync(work("range.txt"), "0123456789");
    const answer = await sandbox.ask("GET", "/filesystem/range.txt?download=true", { headers: { range } });
    assert.equal(answer.status, status);
    assert.equal(answer.headers["content-range"], contentRange);
    if (status === 416) return assert.deepEqual(Object.keys(answer.json as object), ["error"]);
    assert.equal(answer.text, body);
    assert.equal(answer.headers["content-length"], String(body.length));
  });
}

test("a range of an empty file is the whole file", async () => {
  writeFileSync(work("empty"), "");
  const answer = await sandbox.ask("GET", "/filesystem/empty?download=true", { headers: { range: "bytes=0-" } });
  assert.deepEqual([answer.status, answer.text, answer.headers["content-length"]], [200, "", "0"]);
});

test("If-Range lets a range through only for the version that is there", async () => {
  writeFileSync(work("if-range.txt"), "0123456789");
  const path = "/filesystem/if-range.txt?download=true";
  const { etag, "last-modified": modified } = (await sandbox.ask("HEAD", path)).headers;
  const ask = async (value: string): Promise<number> => {
    return (await sandbox.ask("GET", path, { headers: { range: "bytes=0-1", "if-range": value } })).status;
  };
  assert.deepEqual([await ask(etag!), await ask(modified!), await ask('"other"')], [206, 206, 200]);
});

test("HEAD has the headers of GET and no body", async () => {
  writeFileSync(work("head.txt"), "0123456789");
  const path = "/filesystem/head.txt?download=true";
  const [head, get] = [await sandbox.ask("HEAD", path), await sandbox.ask("GET", path)];
  assert.equal(head.body.length, 0);
  for (const name of ["content-length", "content-type", "content-disposition", "etag", "last-modified"]) {
    assert.equal(head.headers[name], get.headers[name], name);
  }
});
