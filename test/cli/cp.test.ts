// `cp` against servers that misbehave: damaged parts, broken connections, files that change, names that lie.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { encodeSandboxPath, isEntryName, parseLocation, targetPath } from "../../src/cli/copy/location.ts";
import { progressLine } from "../../src/cli/copy/progress.ts";
import { singleMaxBytes } from "../../src/cli/copy/upload.ts";
import { cli } from "./run-cli.ts";
import { type Answer, json, reset, sandbox, sandboxPath, serveWire } from "./wire-server.ts";

const root = mkdtempSync(join(tmpdir(), "cli-cp-"));
after(() => rmSync(root, { recursive: true }));

const dev = sandboxPath("dev");
const getDev = { "GET /v0/sandboxes/dev": json(200, sandbox("dev")) };
const content = randomBytes(300_000);
const attachment = { "content-disposition": "attachment", etag: '"v1"' };

/** Serves the content like the sandbox API does; with `cutAfter` the connection breaks after so many bytes. */
function serveFile(cutAfter?: number, version = '"v1"'): Answer {
  return ({ headers }, response) => {
    const first = Number(/^bytes=(\d+)-/.exec(headers.range ?? "")?.[1] ?? 0);
    const isProbe = headers.range === "bytes=0-0";
    const body = isProbe ? content.subarray(0, 1) : content.subarray(first);
    response.writeHead(headers.range === undefined ? 200 : 206, {
      ...attachment,
      etag: version,
      "content-length": body.length,
      ...(headers.range === undefined
        ? {}
        : { "content-range": `bytes ${first}-${first + body.length - 1}/${content.length}` }),
    });
    if (cutAfter === undefined || isProbe) response.end(body);
    else response.write(body.subarray(0, cutAfter), () => response.socket?.destroy());
  };
}

const filePath = `GET ${dev}/filesystem/%2Fdata%2Ff.bin`;
const listData = {
  [`GET ${dev}/filesystem/%2Fdata`]: json(200, {
    path: "/data",
    name: "data",
    subdirectories: [],
    files: [{ name: "f.bin", path: "/data/f.bin", size: content.length, permissions: "0750" }],
  }),
};

test("a download that breaks goes on where it stopped, and keeps the permissions", async () => {
  await using server = await serveWire({
    ...getDev,
    ...listData,
    [filePath]: [serveFile(), serveFile(100_000), serveFile(50_000), serveFile()],
  });
  const target = join(root, "f.bin");
  const run = await cli(["cp", "dev:/data/f.bin", target], { env: server.env });
  assert.deepEqual([run.exitCode, run.stderr], [0, ""]);
  assert.deepEqual(readFileSync(target), content);
  assert.equal(statSync(target).mode & 0o700, 0o700);
  const ranges = server.asked.filter(({ url }) => url.endsWith("f.bin")).map(({ headers }) => headers.range);
  assert.equal(ranges.length, 4);
  assert.match(String(ranges[2]), /^bytes=\d+-$/);
});

test("a file that changes during its download is not put together from two versions", async () => {
  await using server = await serveWire({
    ...getDev,
    ...listData,
    [filePath]: [serveFile(), serveFile(100_000), serveFile(undefined, '"v2"')],
  });
  const dir = mkdtempSync(join(root, "changed-"));
  const run = await cli(["cp", "dev:/data/f.bin", `${dir}/`], { env: server.env });
  assert.equal(run.exitCode, 1);
  assert.match(run.stderr, /changed while it was copied/);
  assert.deepEqual(readdirSync(dir), []);
});

const lies = ["../evil", "a/b", "..", ".", "", "x\0y"];
for (const name of lies) {
  test(`a listing with the name ${JSON.stringify(name)} writes nothing outside the target`, async () => {
    const entry = { name, path: "/data/x", size: 1, permissions: "0644" };
    await using server = await serveWire({
      ...getDev,
      [`GET ${dev}/filesystem/%2Fdata`]: json(200, { path: "/data", name: "data", files: [entry], subdirectories: [] }),
    });
    const dir = mkdtempSync(join(root, "lies-"));
    mkdirSync(join(dir, "in"));
    const run = await cli(["cp", "dev:/data", join(dir, "in", "copy")], { env: server.env });
    assert.equal(run.exitCode, 1);
    assert.match(run.stderr, /listed a name that is not one of a file/);
    assert.deepEqual([readdirSync(dir), readdirSync(join(dir, "in", "copy"))], [["in"], []]);
    assert.ok(!isEntryName(name));
  });
}

test("a large file goes in parts whose sums are compared; a damaged one ends the upload and nothing appears", async () => {
  const source = join(root, "large");
  writeFileSync(source, Buffer.alloc(singleMaxBytes + 1, 7));
  const aborted: string[] = [];
  await using server = await serveWire({
    ...getDev,
    [`GET ${dev}/filesystem/%2Flarge`]: json(404, { error: "nothing there" }),
    [`POST ${dev}/filesystem-multipart/initiate/%2Flarge`]: json(200, { uploadId: "u1", path: "/large" }),
    [`PUT ${dev}/filesystem-multipart/u1/part`]: json(200, { partNumber: 1, etag: "0".repeat(32), size: 1 }),
    [`DELETE ${dev}/filesystem-multipart/u1/abort`]: ({ url }, response) => {
      aborted.push(url);
      json(200, {})({} as never, response);
    },
  });
  const run = await cli(["cp", source, "dev:/large"], { env: server.env });
  assert.equal(run.exitCode, 1);
  assert.match(run.stderr, /Part \d arrived damaged/);
  assert.equal(aborted.length, 1);
  assert.ok(!server.asked.some(({ url }) => url.endsWith("/complete")));
});

test("a part whose connection broke is sent again, and the parts are completed in order", async () => {
  const source = join(root, "parts");
  const bytes = randomBytes(singleMaxBytes + 5);
  writeFileSync(source, bytes);
  let completed: { parts: { partNumber: number; etag: string }[] } | undefined;
  const parts = new Map<number, Buffer>();
  let cut = true;
  await using server = await serveWire({
    ...getDev,
    [`GET ${dev}/filesystem/%2Fp`]: json(404, { error: "nothing there" }),
    [`POST ${dev}/filesystem-multipart/initiate/%2Fp`]: json(200, { uploadId: "u2", path: "/p" }),
    [`PUT ${dev}/filesystem-multipart/u2/part`]: (asked, response) => {
      const partNumber = Number(new URL(asked.url, "http://x").searchParams.get("partNumber"));
      if (partNumber === 2 && cut) {
        cut = false;
        return reset(asked, response);
      }
      const start = asked.body.indexOf("\r\n\r\n") + 4;
      const part = asked.body.subarray(start, asked.body.lastIndexOf("\r\n--"));
      parts.set(partNumber, part);
      const etag = createHash("md5").update(part).digest("hex");
      json(200, { partNumber, etag, size: part.length })(asked, response);
    },
    [`POST ${dev}/filesystem-multipart/u2/complete`]: (asked, response) => {
      completed = JSON.parse(asked.body.toString());
      json(200, { path: "/p", message: "" })(asked, response);
    },
  });
  const run = await cli(["cp", source, "dev:/p", "--json"], { env: server.env });
  assert.deepEqual(JSON.parse(run.stdout), { target: "/p", files: 1, skipped: [] });
  const numbers = completed?.parts.map(({ partNumber }) => partNumber) ?? [];
  assert.deepEqual(numbers, [1, 2, 3, 4, 5]);
  assert.ok(Buffer.concat(numbers.map((number) => parts.get(number)!)).equals(bytes));
});

const refused: [args: string[], exitCode: number, message: RegExp][] = [
  [["here", "there"], 2, /One of the two must be in a sandbox/],
  [["a:/x", "b:/y"], 2, /One of the two must be in a sandbox/],
  [["/does/not/exist", "dev:/x"], 3, /There is no \/does\/not\/exist here/],
  [["dev:/missing", "."], 3, /There is no \/missing in sandbox dev/],
  [["/dev/null", "dev:/x"], 2, /neither a file nor a directory/],
  [["dev:../up", "."], 2, /leads out of the working directory/],
];
for (const [args, exitCode, message] of refused) {
  test(`cp ${args.join(" ")} ends with ${exitCode}`, async () => {
    await using server = await serveWire(getDev);
    const run = await cli(["cp", ...args], { env: server.env });
    assert.equal(run.exitCode, exitCode);
    assert.match(run.stderr, message);
  });
}

test("a colon means a sandbox only after what can be a name", () => {
  assert.deepEqual(parseLocation("dev:/a:b"), { kind: "sandbox", sandbox: "dev", path: "/a:b" });
  assert.deepEqual(parseLocation("dev:"), { kind: "sandbox", sandbox: "dev", path: "." });
  for (const path of ["./dev:/a", "/x:y", "Dev:/a", "file", "a_b:c"]) {
    assert.deepEqual(parseLocation(path), { kind: "local", path });
  }
});

const encoded: [string, string][] = [
  ["/tmp/a b", "%2Ftmp%2Fa%20b"],
  ["a/b c", "a/b%20c"],
  [".", ""],
  ["./x/../y", "y"],
  ["..x", "..x"],
  ["a%2Fb", "a%252Fb"],
];
for (const [path, url] of encoded) {
  test(`the path ${path} stands in a URL as ${JSON.stringify(url)}`, () => assert.equal(encodeSandboxPath(path), url));
}

const targets: [source: string, target: string, isDirectory: boolean, path: string][] = [
  ["/a/f", "/b", true, "/b/f"],
  ["/a/f", "/b", false, "/b"],
  ["/a/f", "/b/", false, "/b/f"],
  ["/a/d/", "/b", true, "/b/d"],
  ["/a/d/.", "/b", true, "/b"],
];
for (const [source, target, isDirectory, path] of targets) {
  test(`${source} copied to ${isDirectory ? "directory " : ""}${target} becomes ${path}`, () => {
    assert.equal(targetPath(source, target, isDirectory), path);
  });
}

test("progress says how far and how fast", () => {
  const line = progressLine({ label: "f", doneBytes: 3 * 1024 ** 2, totalBytes: 6 * 1024 ** 2, elapsedMs: 2_000 });
  assert.equal(line, `f ${"█".repeat(12)}${"░".repeat(12)} 50%  3.0 MiB of 6.0 MiB  1.5 MiB/s`);
});
