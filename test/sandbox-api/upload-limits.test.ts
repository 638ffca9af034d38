// How long multipart uploads may lie, how many there may be, and what is kept of them: against a guest that only takes note.
import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { afterEach, beforeEach, mock, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { partNumberMax } from "../../src/contract/sandbox-api/multipart.ts";
import type { Machine } from "../../src/sandbox-api/machine.ts";
import { openUploadsMax, storedPartsMax, Uploads } from "../../src/sandbox-api/uploads/uploads.ts";

const ttlMs = 1_000;
const startMs = Date.parse("2030-01-01T00:00:00Z");
const never = new AbortController().signal;

let stateDir: string;
/** Paths inside the sandbox, in the order they were removed. */
let removed: string[];
/** Names of the parts that are there; each file that is read is an `x`. */
let stored: string[];
/** What the guest does when it is asked for these. */
let onWrite: () => void;
let onJoin: () => Promise<void>;
let onRemove: () => Promise<void>;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "upload-limits-"));
  removed = [];
  stored = [];
  onWrite = () => undefined;
  onJoin = onRemove = async () => undefined;
  mock.timers.enable({ apis: ["Date"], now: startMs });
});
afterEach(() => {
  mock.timers.reset();
  rmSync(stateDir, { recursive: true });
});

function open(): Uploads {
  const directories: object[] = [];
  const files = {
    makeDirectory: async (path: string) =>
      void directories.push({ name: basename(path), type: "directory", mode: 0o700 }),
    write: async () => onWrite(),
    remove: async (path: string) => {
      await onRemove();
      removed.push(path);
    },
    concatenate: () => onJoin(),
    list: async (path: string) => {
      return path === "/parts" ? directories : stored.map((name) => ({ name, type: "file", sizeBytes: 1 }));
    },
    read: async () => ({ info: { sizeBytes: 1 }, body: Readable.from([Buffer.from("x")]) }),
  };
  return new Uploads({ stateDir, guest: { files } } as unknown as Machine, { ttlMs, partsRoot: "/parts" });
}

/** As the time goes on and somebody uses the sandbox. */
async function collectAt(uploads: Uploads, sinceStartMs: number): Promise<number> {
  mock.timers.setTime(startMs + sinceStartMs);
  uploads.collect();
  await setImmediate();
  return uploads.listOpen().length;
}

/** What an earlier daemon has written of uploads, one record each. */
function leave(records: readonly (readonly object[])[]): string[] {
  const directory = join(stateDir, "uploads");
  mkdirSync(directory);
  return records.map((lines, index) => {
    const uploadId = randomUUID();
    const initiatedAt = new Date(startMs + index).toISOString();
    const first = { kind: "initiated", uploadId, path: `/${index}`, mode: 0o644, initiatedAt };
    const text = [first, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
    writeFileSync(join(directory, `${uploadId}.jsonl`), text);
    return uploadId;
  });
}

const receive = (uploads: Uploads, uploadId: string, partNumber = 1) =>
  uploads.receivePart(uploadId, partNumber, Readable.from([Buffer.from("x")]), never);

test("an upload lies as long as is set after its last part came, also over a restart of the daemon", async () => {
  const before = open();
  const { uploadId } = before.initiate("/target", 0o644);
  mock.timers.setTime(startMs + 900);
  await receive(before, uploadId);
  for (const uploads of [before, open()]) assert.equal(await collectAt(uploads, 1_899), 1);
  assert.deepEqual(removed, []);
  const after = open();
  assert.equal(await collectAt(after, 1_900), 0);
  assert.deepEqual(removed, [`/parts/${uploadId}`]);
  assert.equal(open().listOpen().length, 0);
});

test("an upload is not removed while something of it is coming, however long that takes", async () => {
  const uploads = open();
  const { uploadId } = uploads.initiate("/target", 0o644);
  const body = new PassThrough();
  const receiving = uploads.receivePart(uploadId, 1, body, never);
  body.write("begun");
  assert.equal(await collectAt(uploads, 10 * ttlMs), 1);
  body.end();
  assert.equal((await receiving).sizeBytes, 5);
  assert.equal(await collectAt(uploads, 11 * ttlMs - 1), 1);
  assert.equal(await collectAt(uploads, 12 * ttlMs), 0);
});

test("a part whose client left at the last moment leaves nothing", async () => {
  const uploads = open();
  const { uploadId } = uploads.initiate("/target", 0o644);
  const gone = new AbortController();
  onWrite = () => gone.abort(new Error("gone"));
  await assert.rejects(uploads.receivePart(uploadId, 1, Readable.from([Buffer.from("x")]), gone.signal), /gone/);
  assert.match(removed.join(), new RegExp(`^/parts/${uploadId}/1-[^/]+$`));
  assert.equal(uploads.get(uploadId).parts.size, 0);
});

test(`${openUploadsMax} uploads are open at most`, () => {
  const uploads = open();
  for (let count = 0; count < openUploadsMax; count++) uploads.initiate("/target", 0o644);
  assert.throws(() => uploads.initiate("/target", 0o644), { code: "rate_limited" });
});

test(`${storedPartsMax} parts are stored at most, of all uploads together`, async () => {
  const uploadedAt = new Date(startMs).toISOString();
  const parts = Array.from({ length: partNumberMax }, (_, index) => {
    return { kind: "part", partNumber: index + 1, etag: "e", sizeBytes: 1, uploadedAt, file: `${index + 1}-x` };
  });
  const records = Array.from({ length: storedPartsMax / partNumberMax }, () => parts);
  const [uploadId] = leave([parts.slice(1), ...records.slice(1)]);
  const uploads = open();
  await receive(uploads, uploadId!);
  await assert.rejects(receive(uploads, uploadId!), { code: "rate_limited" });
});

test("of completed uploads the newest 100 are remembered", async () => {
  const ids = leave(Array.from({ length: 101 }, () => [{ kind: "completed" }, { kind: "cleared" }]));
  const uploads = open();
  await assert.rejects(uploads.complete(ids[0]!, []), { code: "not_found" });
  assert.equal((await uploads.complete(ids[1]!, [])).path, "/1");
});

const etag = createHash("md5").update("x").digest("hex");
const named = [{ partNumber: 1, etag }];
const partLine = {
  kind: "part",
  partNumber: 1,
  etag,
  sizeBytes: 1,
  uploadedAt: new Date(startMs).toISOString(),
  file: "1-x",
};

test("an upload that is completed after many that were initiated later is remembered", async () => {
  stored = [partLine.file];
  const completed = Array.from({ length: 100 }, () => [{ kind: "completed" }, { kind: "cleared" }]);
  const [uploadId] = leave([[partLine], ...completed]);
  const uploads = open();
  for (const _time of [1, 2]) assert.equal((await uploads.complete(uploadId!, named)).completed, true);
});

test("a completion whose daemon ended while the guest joined the parts succeeds with the next one", async () => {
  stored = [partLine.file];
  const [uploadId] = leave([[partLine]]);
  const joining = Promise.withResolvers<void>();
  onJoin = () => {
    joining.resolve();
    return new Promise(() => undefined);
  };
  void open().complete(uploadId!, named);
  await joining.promise;
  stored = [];
  assert.equal((await open().complete(uploadId!, named)).completed, true);
});

test("a completed upload whose parts cannot be removed is completed for the next daemon, too, which removes them", async () => {
  stored = [partLine.file];
  const [uploadId] = leave([[partLine]]);
  onRemove = () => Promise.reject(new Error("not now"));
  await open().complete(uploadId!, named);
  onRemove = async () => undefined;
  const next = open();
  assert.equal(await collectAt(next, 1), 0);
  assert.deepEqual(removed, [`/parts/${uploadId}`]);
});

test("of several completions one at a time reads and joins its parts", async () => {
  stored = [partLine.file];
  leave([[partLine], [partLine]]);
  const uploads = open();
  const [begun, allowed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let joins = 0;
  onJoin = () => {
    joins += 1;
    begun.resolve();
    return allowed.promise;
  };
  const completions = uploads.listOpen().map(({ uploadId }) => uploads.complete(uploadId, named));
  await begun.promise;
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  assert.equal(joins, 1);
  allowed.resolve();
  await Promise.all(completions);
  assert.equal(joins, 2);
});
