// Upload URLs in hostile hands: forged, reused, slow, cut off, too large and all at once; what is READY has its bytes, and nothing else is left.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { uploadUrlHeader } from "../../../src/contract/volume-template.ts";
import type { VolumeTemplateConfig } from "../../../src/control-plane/volume-templates/config.ts";
import { type Server, startServer, until } from "../harness.ts";
import { addPerson } from "../people.ts";
import { archive } from "./tar-archive.ts";
import { askUpload, send, sendSlowly, smallArchive } from "./uploading.ts";

const base = "/v0/volume_templates";

function listFiles({ dataDir }: Server): string[] {
  const dir = join(dataDir, "volume-templates");
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name));
}

async function versionOf(server: Server, name: string) {
  return (await server.call("GET", `${base}/${name}`)).body.versions[0];
}

function startWith(volumeTemplates: Partial<VolumeTemplateConfig>): Promise<Server> {
  return startServer({ volumeTemplates });
}

test("only the URL as it was given uploads, and only by PUT", async () => {
  await using server = await startServer();
  const { url } = await askUpload(server, "deps", "one");
  const other = await askUpload(server, "deps", "two");
  const edit = (change: (url: URL) => void): string => {
    const edited = new URL(url);
    change(edited);
    return edited.href;
  };
  const set = (name: string, value: string): string => edit(({ searchParams }) => searchParams.set(name, value));
  const signature = new URL(url).searchParams.get("signature") ?? "";
  const forged: [string, string][] = [
    ["a later expiry", set("expires", "9999999999999")],
    ["a larger size", set("maxBytes", "999999999999999")],
    ["a number in another notation", set("expires", `0${new URL(url).searchParams.get("expires")}`)],
    ["another person", set("by", "0123456789abcdef")],
    ["nobody", edit(({ searchParams }) => searchParams.delete("by"))],
    ["no signature", edit(({ searchParams }) => searchParams.delete("signature"))],
    ["an empty signature", set("signature", "")],
    ["a shorter signature", set("signature", signature.slice(0, -1))],
    ["another signature", set("signature", `${signature.slice(0, -2)}${signature.endsWith("AA") ? "BB" : "AA"}`)],
    ["two signatures", `${url}&signature=${signature}`],
    [
      "no query",
      edit((it) => {
        it.search = "";
      }),
    ],
    [
      "another version",
      edit((it) => {
        it.pathname = new URL(other.url).pathname;
      }),
    ],
    [
      "a version that does not exist",
      edit((it) => {
        it.pathname = "/v0/uploads/aaaaaaaaaaaaaaaa";
      }),
    ],
    [
      "a hostile version",
      edit((it) => {
        it.pathname = "/v0/uploads/..%2f..%2fetc";
      }),
    ],
  ];
  for (const [what, forgery] of forged) {
    const { status, body } = await send(forgery, smallArchive);
    assert.equal(status, 403, what);
    assert.match(body?.message ?? "", /not valid, or has expired/);
  }
  for (const method of ["GET", "POST", "DELETE"]) {
    const answer = await fetch(url, { method, ...(method === "POST" && { body: "x" }) });
    assert.equal(answer.status, 404, method);
    await answer.text();
  }
  assert.deepEqual(listFiles(server), []);
  assert.equal((await versionOf(server, "deps")).status, "CREATED");
  assert.equal((await send(url, smallArchive)).status, 200, "the URL itself is good");
});

test("an expired URL is of no use; a refreshed one is", async () => {
  await using server = await startWith({ uploadUrlTtlMs: 1 });
  const { url } = await askUpload(server, "deps", "one");
  await until("the URL has expired", () => Date.now() > Number(new URL(url).searchParams.get("expires")));
  assert.equal((await send(url, smallArchive)).status, 403);
});

test("URLs of deleted, recreated and refused versions are of no use", async () => {
  await using server = await startServer();
  const first = await askUpload(server, "deps", "one");
  await server.call("DELETE", `${base}/deps`);
  assert.equal((await send(first.url, smallArchive)).status, 403);
  const second = await askUpload(server, "deps", "one");
  assert.equal((await send(first.url, smallArchive)).status, 403, "the name is the same, the version is not");

  const refused = await send(second.url, archive({ name: "l", type: "2", linkName: "/etc" }));
  assert.equal(refused.status, 422);
  assert.match(refused.body?.message ?? "", /"l" is a symbolic link/);
  const failed = await versionOf(server, "deps");
  assert.equal(failed.status, "FAILED");
  assert.match(failed.message, /"l" is a symbolic link/);
  assert.equal((await server.call("GET", `${base}/deps`)).body.state.status, "error");
  assert.equal((await send(second.url, smallArchive)).status, 409, "another URL is needed after a refusal");

  const third = await askUpload(server, "deps", "one");
  assert.equal((await send(second.url, smallArchive)).status, 403);
  assert.equal((await send(third.url, smallArchive)).status, 200);
  const ready = await versionOf(server, "deps");
  assert.equal(ready.status, "READY");
  assert.equal(ready.message, undefined);
});

test("earlier URLs of an awaited version stay good, and any content type does", async () => {
  for (const type of ["application/x-tar", "application/octet-stream", "application/json", "x", "nonsense; ;=", ""]) {
    await using server = await startServer();
    const { url } = await askUpload(server, "deps", "one");
    await askUpload(server, "deps", "one");
    assert.equal((await send(url, smallArchive, { "content-type": type })).status, 200, type);
    assert.equal(readFileSync(listFiles(server)[0] ?? "").equals(smallArchive), true);
  }
});

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

test("a URL is good for as long as whoever asked for it belongs to the workspace", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  const robot = await server.call("POST", "/v0/service_accounts", { body: { name: "robot" } });
  const robotPath = `/v0/service_accounts/${robot.body.client_id}`;
  const robotKey = (await server.call("POST", `${robotPath}/api_keys`, { body: {} })).body.apiKey as string;
  const ask = async (key: string, version: string): Promise<string> => {
    const answer = await server.call("PUT", `${base}/deps?upload=true&version=${version}`, {
      key,
      body: { metadata: { name: "deps" }, spec: {} },
    });
    assert.equal(answer.status, 200, answer.text);
    return answer.headers.get(uploadUrlHeader) ?? "";
  };
  const urls = [await ask(mia.apiKey, "one"), await ask(robotKey, "two")];
  const kept = [await ask(mia.apiKey, "three"), await ask(robotKey, "four")];
  for (const url of kept) assert.equal((await send(url, smallArchive)).status, 200);
  assert.equal((await server.call("DELETE", `/v0/users/${mia.id}`)).status, 200);
  assert.equal((await server.call("DELETE", robotPath)).status, 200);
  for (const url of urls) assert.equal((await send(url, smallArchive)).status, 403);
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

test("a URL and its signature are in no log line, whatever becomes of the upload", async () => {
  await using server = await startWith({ archiveMaxBytes: 4_096 });
  const { url } = await askUpload(server, "deps", "one");
  await send(url, Buffer.alloc(5_000));
  await send(`${url}x`, smallArchive);
  await send(url, Buffer.from("no archive"));
  const again = await askUpload(server, "deps", "one");
  await send(again.url, smallArchive);
  await until("the last request is logged", () => server.logged().includes('"status":200'));
  for (const each of [url, again.url]) {
    const signature = new URL(each).searchParams.get("signature") ?? "";
    assert.ok(signature.length > 40);
    assert.ok(!server.logged().includes(signature));
  }
  assert.ok(!server.logged().includes("maxBytes="));
});
