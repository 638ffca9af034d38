// Multipart uploads over HTTP: the whole way, every refusal, restarts of the daemon, tampering from inside.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { after, before, suite, test } from "node:test";
import type { MultipartUpload, UploadedPart } from "../../src/contract/sandbox-api/multipart.ts";
import { eventually } from "../eventually.ts";
import { form, formEnd, formHeaders, partHead } from "./form.ts";
import { type Answer, TestSandbox } from "./harness.ts";

let sandbox: TestSandbox;
before(async () => {
  sandbox = await TestSandbox.start();
});
after(() => sandbox[Symbol.asyncDispose]());

type Named = { partNumber: number; etag: string; size?: number };
const unknownId = "00000000-0000-4000-8000-000000000000";
const md5 = (bytes: Buffer): string => createHash("md5").update(bytes).digest("hex");
const target = (name: string): string => join(sandbox.workingDir, name);
const partFiles = (uploadId: string): string[] => {
  return existsSync(`${sandbox.multipartRoot}/${uploadId}`) ? readdirSync(`${sandbox.multipartRoot}/${uploadId}`) : [];
};

async function initiate(name: string, json?: object): Promise<string> {
  const path = `/filesystem-multipart/initiate/${encodeURIComponent(target(name))}`;
  const answer = await sandbox.ask("POST", path, { json });
  assert.equal(answer.status, 200, answer.text);
  const { uploadId, path: resolved } = answer.json as { uploadId: string; path: string };
  assert.equal(resolved, target(name));
  assert.match(uploadId, /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/);
  return uploadId;
}

function part(uploadId: string, partNumber: number | string, bytes: Buffer): Promise<Answer> {
  const path = `/filesystem-multipart/${uploadId}/part?partNumber=${partNumber}`;
  return sandbox.ask("PUT", path, form([["file", bytes, "blob"]]));
}

async function upload(uploadId: string, partNumber: number, bytes: Buffer): Promise<Named> {
  const answer = await part(uploadId, partNumber, bytes);
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(answer.json, { partNumber, etag: md5(bytes), size: bytes.length });
  return answer.json as Named;
}

function complete(uploadId: string, parts: Named[]): Promise<Answer> {
  return sandbox.ask("POST", `/filesystem-multipart/${uploadId}/complete`, { json: { parts } });
}

function abort(uploadId: string): Promise<Answer> {
  return sandbox.ask("DELETE", `/filesystem-multipart/${uploadId}/abort`);
}

async function parts(uploadId: string): Promise<UploadedPart[]> {
  const answer = await sandbox.ask("GET", `/filesystem-multipart/${uploadId}/parts`);
  assert.equal(answer.status, 200, answer.text);
  return (answer.json as { parts: UploadedPart[] }).parts;
}

async function open(): Promise<MultipartUpload[]> {
  return ((await sandbox.ask("GET", "/filesystem-multipart")).json as { uploads: MultipartUpload[] }).uploads;
}

function assertError(answer: Answer, status: number, message?: RegExp): void {
  assert.equal(answer.status, status, answer.text);
  assert.deepEqual(Object.keys(answer.json as object), ["error"]);
  if (message !== undefined) assert.match((answer.json as { error: string }).error, message);
}

const bytesOf = (text: string, length = 100_000): Buffer => Buffer.alloc(length, text);

suite("the whole way", () => {
  test("parts uploaded in parallel and any order become one file in the order of their numbers", async () => {
    const uploadId = await initiate("deep/er/whole.bin", { permissions: "0600" });
    const contents = Array.from({ length: 12 }, (_, index) => bytesOf(String.fromCharCode(97 + index), 50_000 + index));
    const named = await Promise.all(contents.map((bytes, index) => upload(uploadId, 3 * (12 - index), bytes)));
    const answer = await complete(uploadId, named);
    const message = "Multipart upload completed successfully";
    assert.deepEqual([answer.status, answer.json], [200, { path: target("deep/er/whole.bin"), message }]);
    assert.ok(readFileSync(target("deep/er/whole.bin")).equals(Buffer.concat(contents.toReversed())));
    assert.equal(statSync(target("deep/er/whole.bin")).mode & 0o7777, 0o600);
    assert.deepEqual(partFiles(uploadId), []);
    assert.ok(!(await open()).some((found) => found.uploadId === uploadId));
    assertError(await sandbox.ask("GET", `/filesystem-multipart/${uploadId}/parts`), 404);
  });

  test("a part that is uploaded again replaces the first, and its bytes are freed", async () => {
    const uploadId = await initiate("replaced.bin");
    const first = await upload(uploadId, 1, bytesOf("1"));
    const second = await upload(uploadId, 1, bytesOf("2"));
    assert.equal(partFiles(uploadId).length, 1);
    assertError(await complete(uploadId, [first]), 400, /etag/);
    assert.equal((await complete(uploadId, [second])).status, 200);
    assert.ok(readFileSync(target("replaced.bin")).equals(bytesOf("2")));
  });

  test("only the named parts are in the file; an etag may stand in quotes", async () => {
    const uploadId = await initiate("some.bin");
    const named = [await upload(uploadId, 1, bytesOf("a")), await upload(uploadId, 3, bytesOf("c"))];
    await upload(uploadId, 2, bytesOf("b"));
    const quoted = named.map((entry) => ({ ...entry, etag: `"${entry.etag}"` }));
    assert.equal((await complete(uploadId, quoted)).status, 200);
    assert.ok(readFileSync(target("some.bin")).equals(Buffer.concat([bytesOf("a"), bytesOf("c")])));
    assert.deepEqual(partFiles(uploadId), []);
  });

  test("listings tell what there is", async () => {
    const uploadId = await initiate("listed.bin", { permissions: "0640" });
    await upload(uploadId, 10, bytesOf("x"));
    await upload(uploadId, 2, bytesOf("y", 5));
    const found = await parts(uploadId);
    assert.deepEqual(
      found.map(({ uploadedAt: _, ...rest }) => rest),
      [
        { partNumber: 2, etag: md5(bytesOf("y", 5)), size: 5 },
        { partNumber: 10, etag: md5(bytesOf("x")), size: 100_000 },
      ],
    );
    assert.ok(!Number.isNaN(Date.parse(found[0]!.uploadedAt)));
    const listed = (await open()).find((entry) => entry.uploadId === uploadId)!;
    assert.deepEqual([listed.path, listed.permissions], [target("listed.bin"), 0o640]);
    assert.deepEqual(Object.keys(listed.parts), ["2", "10"]);
    assert.equal(listed.parts["10"]!.etag, md5(bytesOf("x")));
    await abort(uploadId);
  });

  test("parts are for the one that serves files alone, small ones and large ones", async () => {
    const uploadId = await initiate("private.bin");
    for (const [partNumber, size] of [10, 1_000_000].entries())
      await upload(uploadId, partNumber + 1, bytesOf("x", size));
    const directory = `${sandbox.multipartRoot}/${uploadId}`;
    const files = partFiles(uploadId).map((name) => `${directory}/${name}`);
    const modes = [sandbox.multipartRoot, directory, ...files].map((path) => statSync(path).mode & 0o777);
    assert.deepEqual(modes, [0o700, 0o700, 0o600, 0o600]);
    await abort(uploadId);
  });

  test("abort removes every part and answers with the path of the target", async () => {
    const uploadId = await initiate("aborted.bin");
    await upload(uploadId, 1, bytesOf("x"));
    assert.equal(partFiles(uploadId).length, 1);
    const answer = await abort(uploadId);
    const message = "Multipart upload aborted successfully";
    assert.deepEqual([answer.status, answer.json], [200, { message, path: target("aborted.bin") }]);
    assert.ok(!existsSync(`${sandbox.multipartRoot}/${uploadId}`));
    assert.ok(!existsSync(target("aborted.bin")));
    assertError(await abort(uploadId), 404);
    assertError(await part(uploadId, 1, bytesOf("x")), 404);
  });

  test("a completion repeated after its answer was lost succeeds again", async () => {
    const uploadId = await initiate("repeated.bin");
    const named = [await upload(uploadId, 1, bytesOf("x"))];
    const first = await complete(uploadId, named);
    assert.deepEqual([(await complete(uploadId, named)).json, first.status], [first.json, 200]);
    await sandbox.restart();
    assert.deepEqual((await complete(uploadId, named)).json, first.json);
  });
});

suite("refusals", () => {
  test("an id that is none is 400, an unknown one 404", async () => {
    for (const [id, status] of [
      ["nonsense", 400],
      ["..%2f..%2fetc", 400],
      [unknownId, 404],
    ] as const) {
      assertError(await part(id, 1, bytesOf("x")), status);
      assertError(await sandbox.ask("GET", `/filesystem-multipart/${id}/parts`), status);
      assertError(await complete(id, [{ partNumber: 1, etag: "x" }]), status);
      assertError(await abort(id), status);
    }
  });

  test("part numbers outside 1 to 10000 are 400", async () => {
    const uploadId = await initiate("numbers.bin");
    for (const number of ["0", "10001", "-1", "x", "", "1.5", "99999999999999"]) {
      assertError(await part(uploadId, number, bytesOf("x")), 400, /partNumber/);
    }
    assertError(await sandbox.ask("PUT", `/filesystem-multipart/${uploadId}/part`, form([["file", "x"]])), 400);
    await upload(uploadId, 10_000, bytesOf("x", 1));
    await abort(uploadId);
  });

  test("a part without a file is 400", async () => {
    const uploadId = await initiate("nofile.bin");
    const path = `/filesystem-multipart/${uploadId}/part?partNumber=1`;
    assertError(await sandbox.ask("PUT", path, form([["other", "x"]])), 400, /'file'/);
    assertError(await sandbox.ask("PUT", path, { json: {} }), 400, /'file'/);
    const cut = form([["file", bytesOf("x"), "blob"]]);
    assertError(await sandbox.ask("PUT", path, { ...cut, body: cut.body.subarray(0, 5_000) }), 400);
    assert.deepEqual(await parts(uploadId), []);
    assert.deepEqual(partFiles(uploadId), []);
    await abort(uploadId);
  });

  test("completing with nothing, with what is missing, wrong or named twice is 400 and leaves the upload open", async () => {
    const uploadId = await initiate("wrong.bin");
    const named = await upload(uploadId, 1, bytesOf("x"));
    assertError(await complete(uploadId, []), 400, /empty/);
    assertError(await complete(uploadId, [named, { partNumber: 2, etag: "x" }]), 400, /Part 2 was not uploaded/);
    assertError(await complete(uploadId, [{ ...named, etag: md5(bytesOf("y")) }]), 400, /etag/);
    assertError(await complete(uploadId, [named, named]), 400, /twice/);
    const json = { parts: [{ partNumber: "1", etag: named.etag }] };
    assertError(await sandbox.ask("POST", `/filesystem-multipart/${uploadId}/complete`, { json }), 400);
    assert.ok(!existsSync(target("wrong.bin")));
    assert.equal((await complete(uploadId, [named])).status, 200);
  });

  test("a target that cannot be written is 422, and the upload stays until it is aborted", async () => {
    mkdirSync(target("is-a-directory/x"), { recursive: true });
    const uploadId = await initiate("is-a-directory");
    const named = await upload(uploadId, 1, bytesOf("x"));
    assertError(await complete(uploadId, [named]), 422);
    assert.equal((await parts(uploadId)).length, 1);
    assert.equal((await abort(uploadId)).status, 200);
  });

  test("bad permissions are 400", async () => {
    const path = `/filesystem-multipart/initiate/${encodeURIComponent(target("p"))}`;
    assertError(await sandbox.ask("POST", path, { json: { permissions: "nope" } }), 400, /octal/);
  });
});

suite("parts inside the sandbox", () => {
  test("a part that a process inside truncated or removed is refused; the old file stays", async () => {
    for (const tamper of [
      (file: string) => truncateSync(file, 10),
      (file: string) => writeFileSync(file, bytesOf("forged").subarray(0, statSync(file).size)),
      (file: string) => rmSync(file),
      (file: string) => rmSync(dirname(file), { recursive: true }),
    ]) {
      writeFileSync(target("kept.bin"), "old");
      const uploadId = await initiate("kept.bin");
      const named = await upload(uploadId, 1, bytesOf("new"));
      tamper(`${sandbox.multipartRoot}/${uploadId}/${partFiles(uploadId)[0]}`);
      assertError(await complete(uploadId, [named]), 400, /Part 1 .* inside the sandbox/);
      assert.equal(readFileSync(target("kept.bin"), "utf8"), "old");
      assert.equal((await abort(uploadId)).status, 200);
    }
  });
});

suite("the directory of the parts", () => {
  test("that a process inside removed is made again as it was, for nobody else", async () => {
    for (const removed of ["", "/.."]) {
      const uploadId = await initiate("again.bin");
      await upload(uploadId, 1, bytesOf("1"));
      rmSync(join(`${sandbox.multipartRoot}/${uploadId}`, removed), { recursive: true });
      const named = await upload(uploadId, 1, bytesOf("2"));
      for (const path of [sandbox.multipartRoot, `${sandbox.multipartRoot}/${uploadId}`]) {
        assert.equal(statSync(path).mode & 0o7777, 0o700, path);
      }
      assert.equal((await complete(uploadId, [named])).status, 200);
      assert.ok(readFileSync(target("again.bin")).equals(bytesOf("2")));
    }
  });

  test("that a process inside replaced by something else takes no part, and nothing is written elsewhere", async () => {
    const elsewhere = target("elsewhere");
    mkdirSync(elsewhere, { mode: 0o700 });
    for (const plant of [
      (path: string) => symlinkSync(elsewhere, path),
      (path: string) => symlinkSync("/nowhere", path),
      (path: string) => writeFileSync(path, "file"),
      (path: string) => execFileSync("mkfifo", [path]),
      (path: string) => mkdirSync(path, { mode: 0o755 }),
    ]) {
      const uploadId = await initiate("replaced-directory.bin");
      await upload(uploadId, 1, bytesOf("1"));
      const path = `${sandbox.multipartRoot}/${uploadId}`;
      rmSync(path, { recursive: true });
      plant(path);
      assertError(await part(uploadId, 2, bytesOf("2")), 422);
      assert.deepEqual(readdirSync(elsewhere), []);
      assert.equal((await abort(uploadId)).status, 200);
      assert.ok(!existsSync(path) && existsSync(elsewhere));
    }
  });
});

suite("at once", () => {
  test("of two completions one publishes; both may be told so", async () => {
    const uploadId = await initiate("twice.bin");
    const named = await Promise.all([1, 2, 3].map((number) => upload(uploadId, number, bytesOf(`${number}`, 400_000))));
    const answers = await Promise.all([complete(uploadId, named), complete(uploadId, named)]);
    const statuses = answers.map(({ status }) => status).sort();
    assert.ok(["200,200", "200,409"].includes(statuses.join()), statuses.join());
    assert.equal(statSync(target("twice.bin")).size, 1_200_000);
    assert.equal((await complete(uploadId, named)).status, 200);
  });

  test("a completion and an abort: one of them happens, and nothing is left", async () => {
    for (let round = 0; round < 10; round++) {
      const uploadId = await initiate("either.bin");
      const named = [await upload(uploadId, 1, bytesOf("e", 300_000))];
      const answers = await Promise.all([complete(uploadId, named), abort(uploadId)]);
      const [completed, aborted] = answers.map(({ status }) => status);
      assert.ok((completed === 200) !== (aborted === 200), `${completed} ${aborted}`);
      assert.equal(existsSync(target("either.bin")), completed === 200);
      assert.deepEqual(partFiles(uploadId), []);
      rmSync(target("either.bin"), { force: true });
    }
  });

  test("a part that is still coming does not hold up a completion or an abort", async () => {
    for (const end of ["complete", "abort"] as const) {
      const uploadId = await initiate("late.bin");
      const named = [await upload(uploadId, 1, bytesOf("1"))];
      const body = new PassThrough();
      const late = sandbox.ask("PUT", `/filesystem-multipart/${uploadId}/part?partNumber=1`, {
        headers: formHeaders,
        body,
      });
      body.write(Buffer.concat([partHead("file", "late"), Buffer.alloc(1_000_000)]));
      await eventually(() => assert.equal(partFiles(uploadId).length, 2));
      const answer = await (end === "complete" ? complete(uploadId, named) : abort(uploadId));
      assert.equal(answer.status, 200, answer.text);
      body.end(Buffer.concat([Buffer.from("\r\n"), formEnd]));
      assertError(await late, 409);
      assert.deepEqual(partFiles(uploadId), []);
    }
    assert.ok(readFileSync(target("late.bin")).equals(bytesOf("1")));
  });

  test("a client that leaves in the middle of a part leaves nothing of it", async () => {
    const uploadId = await initiate("left.bin");
    const body = new PassThrough();
    const answered = sandbox.ask("PUT", `/filesystem-multipart/${uploadId}/part?partNumber=1`, {
      headers: formHeaders,
      body,
    });
    answered.catch(() => undefined);
    body.write(Buffer.concat([partHead("file", "left"), Buffer.alloc(1_000_000)]));
    await eventually(() => assert.equal(partFiles(uploadId).length, 1));
    body.destroy(new Error("left"));
    await eventually(() => assert.deepEqual(partFiles(uploadId), []));
    assert.deepEqual(await parts(uploadId), []);
    await abort(uploadId);
  });
});

suite("abandoned uploads", () => {
  test("are removed with their parts once nothing came for as long as is set, and not before", async () => {
    const old = await initiate("abandoned.bin");
    await upload(old, 1, bytesOf("x"));
    await sandbox.restart();
    assert.ok((await open()).some(({ uploadId }) => uploadId === old));
    await sandbox.close();
    const record = join(sandbox.stateDir, "uploads", `${old}.jsonl`);
    const yesterday = new Date(Date.now() - 24 * 60 * 60_000).toISOString();
    writeFileSync(record, readFileSync(record, "utf8").replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, yesterday));
    await sandbox.open();
    const fresh = await initiate("fresh.bin");
    await eventually(async () =>
      assert.deepEqual(
        (await open()).map(({ uploadId }) => uploadId),
        [fresh],
      ),
    );
    assert.ok(!existsSync(`${sandbox.multipartRoot}/${old}`) && !existsSync(record));
    await abort(fresh);
  });

  test("what a completion left because the daemon ended is removed when the sandbox is used again", async () => {
    const uploadId = await initiate("ended.bin");
    const named = [await upload(uploadId, 1, bytesOf("x"))];
    await sandbox.close();
    const record = join(sandbox.stateDir, "uploads", `${uploadId}.jsonl`);
    writeFileSync(record, `${readFileSync(record, "utf8")}{"kind":"completed"}\n`);
    await sandbox.open();
    assert.equal(partFiles(uploadId).length, 1);
    assert.equal((await complete(uploadId, named)).status, 200);
    await eventually(() => assert.deepEqual(partFiles(uploadId), []));
  });
});

suite("restarts", () => {
  test("a torn line costs only itself", async () => {
    const uploadId = await initiate("torn.bin");
    const first = await upload(uploadId, 1, bytesOf("a"));
    await sandbox.close();
    const record = join(sandbox.stateDir, "uploads", `${uploadId}.jsonl`);
    writeFileSync(record, `${readFileSync(record, "utf8")}{"kind":"part","partNum`);
    await sandbox.open();
    const second = await upload(uploadId, 2, bytesOf("b"));
    await sandbox.restart();
    assert.equal((await complete(uploadId, [first, second])).status, 200);
    assert.equal(statSync(target("torn.bin")).size, 200_000);
  });

  test("parts that are replaced again and again do not make the record grow without end", async () => {
    const uploadId = await initiate("grow.bin");
    const record = join(sandbox.stateDir, "uploads", `${uploadId}.jsonl`);
    // As long as it is there, no other file has its number.
    linkSync(record, join(sandbox.directory, "first-record"));
    let named: Named | undefined;
    for (let round = 0; round < 1_100; round++) named = await upload(uploadId, 1, bytesOf(`${round}`, 10));
    assert.ok(readFileSync(record, "utf8").length < 60_000);
    // Written anew beside the old one: a crash leaves one of both.
    assert.notEqual(statSync(record).ino, statSync(join(sandbox.directory, "first-record")).ino);
    await sandbox.restart();
    assert.equal((await complete(uploadId, [named!])).status, 200);
  });

  test("a completion that went on unheard after the daemon was gone succeeds when repeated, but only with what was uploaded", async () => {
    for (const [content, status] of [
      [bytesOf("u"), 200],
      [bytesOf("v"), 400],
    ] as const) {
      const uploadId = await initiate("unheard.bin");
      const named = [await upload(uploadId, 1, bytesOf("u"))];
      await sandbox.close();
      const record = join(sandbox.stateDir, "uploads", `${uploadId}.jsonl`);
      writeFileSync(record, `${readFileSync(record, "utf8")}{"kind":"completing","sizeBytes":100000}\n`);
      rmSync(`${sandbox.multipartRoot}/${uploadId}`, { recursive: true });
      writeFileSync(target("unheard.bin"), content);
      await sandbox.open();
      assert.equal((await complete(uploadId, named)).status, status);
      if (status !== 200) assert.equal((await abort(uploadId)).status, 200);
    }
  });

  test("an upload goes on after the daemon restarted", async () => {
    const uploadId = await initiate("restart.bin", { permissions: "0604" });
    const first = await upload(uploadId, 1, bytesOf("a"));
    await sandbox.restart();
    assert.deepEqual(
      (await parts(uploadId)).map(({ etag }) => etag),
      [first.etag],
    );
    const second = await upload(uploadId, 2, bytesOf("b"));
    assert.equal((await complete(uploadId, [second, first])).status, 200);
    assert.ok(readFileSync(target("restart.bin")).equals(Buffer.concat([bytesOf("a"), bytesOf("b")])));
    assert.equal(statSync(target("restart.bin")).mode & 0o7777, 0o604);
  });

  test("a completion that was published but not recorded before a crash succeeds when repeated", async () => {
    const uploadId = await initiate("published.bin");
    const named = [await upload(uploadId, 1, bytesOf("p"))];
    const record = join(sandbox.stateDir, "uploads", `${uploadId}.jsonl`);
    assert.equal((await complete(uploadId, named)).status, 200);
    await sandbox.close();
    const lines = readFileSync(record, "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.includes('"completed"'));
    writeFileSync(record, `${lines.join("\n")}\n{"kind":"comp`);
    await sandbox.open();
    assert.equal((await complete(uploadId, named)).status, 200);
    assert.ok(readFileSync(target("published.bin")).equals(bytesOf("p")));
    assertError(await abort(uploadId), 404);
  });
});
