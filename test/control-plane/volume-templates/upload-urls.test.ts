// Upload URLs in hostile hands: forged, reused, expired and logged.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { uploadUrlHeader } from "../../../src/contract/volume-template.ts";
import { startServer, until } from "../harness.ts";
import { addPerson } from "../people.ts";
import { archive } from "./tar-archive.ts";
import { askUpload, listFiles, send, smallArchive, startWith, versionOf } from "./uploading.ts";

const base = "/v0/volume_templates";

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
