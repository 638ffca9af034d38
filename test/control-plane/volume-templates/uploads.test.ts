// Uploads in hostile hands: slow, cut off, too large and all at once; what is READY has its bytes, and nothing else is left.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startServer, until } from "../harness.ts";
import { archive } from "./tar-archive.ts";
import { askUpload, listFiles, send, sendSlowly, smallArchive, startWith, versionOf } from "./uploading.ts";

const base = "/v0/volume_templates";

test("an archive may have exactly the largest size, announced or not", async () => {
  await using server = await startWith({ archiveMaxBytes: smallArchive.length });
  const larger = Buffer.concat([smallArchive, Buffer.alloc(1)]);
  const { url } = await askUpload(server, "deps", "one");
  const announced = await send(url, larger);
  assert.equal(announced.status, 413);
  assert.match(announced.body?.message ?? "", new RegExp(`at most ${smallArchive.length} bytes`));
  const chunked = sendSlowly(url);
  await chunked.write(larger);
  assert.equal(await chunked.ended, 413, "while the client is still sending");
  chunked.cut();
  assert.deepEqual(listFiles(server), []);
  assert.equal((await versionOf(server, "deps")).status, "CREATED");
  assert.equal((await send(url, smallArchive)).status, 200);
});

test("a client that goes away or falls silent leaves nothing, and may begin again", async () => {
  await using server = await startWith({ stallMs: 300 });
  const { url } = await askUpload(server, "deps", "one");
  const leaving = sendSlowly(url);
  await leaving.write(smallArchive.subarray(0, 700));
  await until("the upload is written down", () => listFiles(server).length === 1);
  leaving.cut();
  await until("nothing is left", () => listFiles(server).length === 0);
  const silent = sendSlowly(url);
  await silent.write(smallArchive.subarray(0, 700));
  assert.equal(await silent.ended, 504);
  assert.deepEqual(listFiles(server), []);
  silent.cut();
  assert.equal((await send(url, smallArchive)).status, 200);
});

test("an upload that never ends is ended, however steadily it moves", async () => {
  await using server = await startWith({ uploadMaxMs: 300 });
  const { url } = await askUpload(server, "deps", "one");
  const endless = sendSlowly(url);
  let status: number | "cut off" | undefined;
  void endless.ended.then((ended) => {
    status = ended;
  });
  await endless.write(archive({ name: "a", content: Buffer.alloc(1_000) }).subarray(0, 512));
  await until("it is ended", async () => {
    await endless.write(Buffer.alloc(1));
    return status;
  });
  assert.equal(status, 504);
  endless.cut();
});

test("a newer upload replaces an unfinished one", async () => {
  await using server = await startServer();
  const { url } = await askUpload(server, "deps", "one");
  const older = sendSlowly(url);
  await older.write(smallArchive.subarray(0, 700));
  await until("the upload is written down", () => listFiles(server).length === 1);
  assert.equal((await send(url, smallArchive)).status, 200);
  assert.equal(await older.ended, 409);
  older.cut();
  assert.equal(listFiles(server).length, 1);
});

test("of many uploads to one version at once one wins whole", async () => {
  await using server = await startServer();
  const { url } = await askUpload(server, "deps", "one");
  const contents = Array.from({ length: 12 }, (_, index) =>
    archive({ name: `file-${index}`, content: Buffer.alloc(200_000 + index * 512, index + 1) }),
  );
  const sent = await Promise.all(contents.map((content) => send(url, content)));
  const winners = sent.flatMap(({ status }, index) => (status === 200 ? [index] : []));
  assert.equal(winners.length, 1, JSON.stringify(sent.map(({ status }) => status)));
  for (const { status } of sent) assert.ok([200, 409, 429].includes(status), String(status));
  const version = await versionOf(server, "deps");
  const won = contents[winners[0] ?? 0] ?? Buffer.alloc(0);
  assert.equal(version.contentSize, won.length);
  const files = listFiles(server);
  assert.equal(files.length, 1);
  assert.equal(readFileSync(files[0] ?? "").equals(won), true);
});

test("uploads at the same time are limited in a workspace", async () => {
  await using server = await startWith({ uploadsMax: 2 });
  const slow = [];
  for (const version of ["one", "two"]) {
    const upload = sendSlowly((await askUpload(server, "deps", version)).url);
    await upload.write(smallArchive.subarray(0, 700));
    slow.push(upload);
  }
  await until("both are under way", () => listFiles(server).length === 2);
  const third = await askUpload(server, "deps", "three");
  assert.equal((await send(third.url, smallArchive)).status, 429);
  for (const upload of slow) {
    await upload.write(smallArchive.subarray(700));
    upload.end();
    assert.equal(await upload.ended, 200);
  }
  assert.equal((await send(third.url, smallArchive)).status, 200);
});

test("an upload that is refused ends no other of its version", async () => {
  await using server = await startWith({ uploadsMax: 1 });
  const { url } = await askUpload(server, "deps", "one");
  const upload = sendSlowly(url);
  await upload.write(smallArchive.subarray(0, 700));
  await until("it is under way", () => listFiles(server).length === 1);
  assert.equal((await send(url, smallArchive)).status, 429);
  await upload.write(smallArchive.subarray(700));
  upload.end();
  assert.equal(await upload.ended, 200);
});

test("the archives of a workspace have a quota, also while they arrive", async () => {
  const size = smallArchive.length;
  await using server = await startWith({ workspaceMaxBytes: size * 2 });
  const [one, two, three] = [
    await askUpload(server, "a", "1"),
    await askUpload(server, "a", "2"),
    await askUpload(server, "a", "3"),
  ];
  assert.equal((await send(one.url, smallArchive)).status, 200);
  const slow = sendSlowly(two.url);
  await slow.write(smallArchive.subarray(0, 700));
  await until("it is under way", () => listFiles(server).length === 2);
  const meanwhile = await send(three.url, smallArchive);
  assert.equal(meanwhile.status, 403);
  assert.equal(meanwhile.body?.error, "quota_exceeded");
  await slow.write(smallArchive.subarray(700));
  slow.end();
  assert.equal(await slow.ended, 200, "exactly the quota");
  assert.equal((await send(three.url, smallArchive)).status, 403);
  await server.call("DELETE", `${base}/a/versions/1`);
  assert.equal((await send(three.url, smallArchive)).status, 200, "what is deleted counts no more");
});

test("an upload that would leave too little of the disk is refused", async () => {
  await using server = await startWith({ diskReserveBytes: Number.MAX_SAFE_INTEGER });
  const { url } = await askUpload(server, "deps", "one");
  assert.equal((await send(url, smallArchive)).status, 503);
});

test("files go when their template or version does, also when that happens under an upload", async () => {
  await using server = await startServer();
  for (const version of ["one", "two"]) {
    assert.equal((await send((await askUpload(server, "deps", version)).url, smallArchive)).status, 200);
  }
  const slow = sendSlowly((await askUpload(server, "deps", "three")).url);
  await slow.write(smallArchive.subarray(0, 700));
  await until("it is under way", () => listFiles(server).length === 3);
  await server.call("DELETE", `${base}/deps/versions/one`);
  await until("the version's file is gone", () => listFiles(server).length === 2);
  await server.call("DELETE", `${base}/deps`);
  await until("only the upload is left", () => listFiles(server).length === 1);
  await slow.write(smallArchive.subarray(700));
  slow.end();
  assert.equal(await slow.ended, 409);
  assert.deepEqual(listFiles(server), []);
});

test("uploads and deletions at once leave exactly the files that READY versions have", async () => {
  await using server = await startWith({ sweepIntervalMs: 5, uploadsMax: 100 });
  const lanes = Array.from({ length: 6 }, async (_, lane) => {
    for (let round = 0; round < 8; round++) {
      const name = `t${(lane + round) % 3}`;
      const asked = await server.call("PUT", `${base}/${name}?upload=true&version=v${lane}-${round}`, {
        body: { metadata: {}, spec: {} },
      });
      const url = asked.headers.get("x-blaxel-upload-url");
      assert.ok(asked.status === 200 && url !== null, asked.text);
      const sending = send(url, smallArchive);
      if (round % 3 === 2) await server.call("DELETE", `${base}/${name}`);
      assert.ok([200, 403, 409].includes((await sending).status));
    }
  });
  await Promise.all(lanes);
  const { body } = await server.call("GET", base);
  const ready = body
    .flatMap(({ versions }: { versions: { status: string }[] }) => versions)
    .filter(({ status }: { status: string }) => status === "READY");
  await until("every file has its version", () => listFiles(server).length === ready.length);
  for (const file of listFiles(server)) assert.equal(readFileSync(file).equals(smallArchive), true);
});
