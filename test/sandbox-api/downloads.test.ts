// Downloads of files over HTTP: which answer is raw, ranges, versions, HEAD.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, before, test } from "node:test";
import type { FileWithContent } from "../../src/contract/sandbox-api/filesystem.ts";
import { fileWithContent } from "../../src/sandbox-api/files/file-answer.ts";
import type { FileInfo } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";
import { sendCut } from "./cut-request.ts";
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
  ["Bytes=1-99999999999999999999999", 206, "123456789", "bytes 1-9/10"],
  ["bytes=99999999999999999999999-", 416, "", "bytes */10"],
  ["bytes=-99999999999999999999999", 206, "0123456789", "bytes 0-9/10"],
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

test("a file that the client has is not sent again, large or small, by GET or HEAD", async () => {
  const ranges: Record<string, string>[] = [{}, { range: "bytes=0-1" }];
  for (const sizeBytes of [0, 10, 300_000]) {
    writeFileSync(work("known.txt"), "x".repeat(sizeBytes));
    const path = "/filesystem/known.txt?download=true";
    const { etag } = (await sandbox.ask("GET", path)).headers as { etag: string };
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      for (const method of ["GET", "HEAD"]) {
        for (const range of ranges) {
          const answer = await sandbox.ask(method, path, { headers: { "if-none-match": known, ...range } });
          assert.deepEqual([answer.status, answer.text, answer.headers.etag], [304, "", etag]);
        }
      }
    }
    const other = await sandbox.ask("GET", path, { headers: { "if-none-match": '"other"' } });
    assert.deepEqual([other.status, other.text.length], [200, sizeBytes]);
  }
  writeFileSync(work("known.txt"), "as JSON");
  const text = await sandbox.ask("GET", "/filesystem/known.txt", { headers: { "if-none-match": "*" } });
  assert.equal((text.json as FileWithContent).content, "as JSON");
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

test("a file whose size is not what it says is answered as it is read, also in ranges", async () => {
  const raw = { headers: { accept: "application/octet-stream" } };
  for (const path of ["/proc/sys/kernel/ostype", "/sys/kernel/mm/transparent_hugepage/enabled"]) {
    const content = readFileSync(path);
    const url = `/filesystem/${encodeURIComponent(path)}`;
    const whole = await sandbox.ask("GET", url, raw);
    assert.deepEqual([whole.status, whole.body], [200, content]);
    const { size, content: text } = (await sandbox.ask("GET", url)).json as { size: number; content: string };
    assert.deepEqual([size, text], [content.length, content.toString()]);
    const range = await sandbox.ask("GET", url, { headers: { ...raw.headers, range: "bytes=1-3" } });
    assert.deepEqual([range.status, range.body], [206, content.subarray(1, 4)]);
    assert.equal(range.headers["content-range"], `bytes 1-3/${content.length}`);
    const head = await sandbox.ask("HEAD", url, raw);
    assert.equal(head.headers["content-length"], String(content.length));
  }
});

test("a large file that shrinks while it is downloaded breaks the answer off, and never ends it as if it were whole", async () => {
  const path = join(sandbox.workingDir, "shrinks");
  for (const accept of ["application/octet-stream", "application/json"]) {
    writeFileSync(path, Buffer.alloc(40 * 1024 * 1024, "s"));
    const answer = await sandbox.send({ method: "GET", path: "/filesystem/shrinks", headers: { accept } });
    assert.equal(answer.statusCode, 200);
    truncateSync(path, 1_000);
    await assert.rejects(buffer(answer), accept);
    assert.equal((await sandbox.ask("GET", "/filesystem/shrinks")).status, 200);
  }
});

test("a file that grows, is renamed or removed while it is downloaded comes as it was", async () => {
  const bytes = randomBytes(24 * 1024 * 1024);
  const path = join(sandbox.workingDir, "moves");
  for (const change of [
    () => appendFileSync(path, "more"),
    () => renameSync(path, `${path}-renamed`),
    () => rmSync(path),
    () => {
      writeFileSync(`${path}-new`, "new");
      renameSync(`${path}-new`, path);
    },
  ]) {
    writeFileSync(path, bytes);
    const headers = { accept: "application/octet-stream" };
    const answer = await sandbox.send({ method: "GET", path: "/filesystem/moves", headers });
    change();
    assert.ok((await buffer(answer)).equals(bytes));
  }
});

test("of a huge sparse file any range can be had", async () => {
  const path = join(sandbox.workingDir, "sparse");
  writeFileSync(path, "begin");
  const size = 8 * 1024 ** 4;
  truncateSync(path, size);
  const last = await sandbox.ask("GET", "/filesystem/sparse?download=true", { headers: { range: "bytes=-4" } });
  assert.deepEqual(
    [last.status, last.body, last.headers["content-range"]],
    [206, Buffer.alloc(4), `bytes ${size - 4}-${size - 1}/${size}`],
  );
  const first = await sandbox.ask("GET", "/filesystem/sparse?download=true", { headers: { range: "bytes=0-4" } });
  assert.equal(first.text, "begin");
  assert.equal((await sandbox.ask("GET", "/filesystem/sparse")).status, 422);
});

const tenBytes: FileInfo = {
  type: "file",
  name: "x",
  mode: 0o644,
  uid: 0,
  gid: 0,
  owner: "root",
  group: "root",
  sizeBytes: 10,
  modifiedAtMs: 0,
};

test("an answer that is given up before it was begun gives up the file", async () => {
  const body = new PassThrough();
  fileWithContent("/x", tenBytes, body).destroy();
  await eventually(() => assert.ok(body.destroyed));
});

test("an answer whose file ends early fails, before it was begun too", async () => {
  for (const hasBegun of [true, false]) {
    const body = new PassThrough();
    const answer = fileWithContent("/x", tenBytes, body);
    if (hasBegun) answer.resume();
    body.destroy(new Error("it ended"));
    await assert.rejects(once(answer, "close"), /it ended/);
  }
});

test("clients that leave before they are answered leave no file open", async () => {
  writeFileSync(work("large.txt"), Buffer.alloc(1024 * 1024, "a"));
  // More than can be open at once.
  for (let count = 0; count < 150; count += 1) {
    const outcome = await sendCut(sandbox.port, { method: "GET", path: "/filesystem/large.txt" }, "waiting");
    assert.notEqual(outcome.kind, "broken");
  }
  await eventually(() => assert.throws(() => execFileSync("ps", ["--ppid", String(sandbox.guestPid)])));
});
