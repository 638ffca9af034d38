// The audit log tells who changed what and who was refused, before the change is acknowledged, and never a secret.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditEntry } from "../../src/contract/audit-log.ts";
import { AuditWriter, firstIdAt } from "../../src/control-plane/audit/writer.ts";
import type { AuditLogTable } from "../../src/control-plane/db/tables/audit-log.ts";
import { type Server, startServer, until } from "./harness.ts";
import { addPerson, addWorkspace } from "./people.ts";
import { askUpload, send, smallArchive } from "./volume-templates/uploading.ts";

async function entries(server: Server, query = ""): Promise<AuditEntry[]> {
  const answer = await server.call("GET", `/v0/audit_logs${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.body.data;
}

test("every change is there when its answer arrives: who, what, where from, with which result", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  const created = await server.create({ name: "box" }, { key: mia.apiKey });
  const requestId = created.headers.get("x-request-id");
  assert.match(requestId ?? "", /^[a-z0-9]{6}-[a-z0-9]+$/);
  const [entry] = await entries(server);
  const { id, time, ...told } = entry!;
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000);
  assert.match(id, /^[a-z0-9]{19}$/);
  assert.deepEqual(told, {
    workspace: "main",
    sub: mia.id,
    subName: "mia",
    sub_type: "user",
    credential: mia.keyId,
    operation: "POST /sandboxes",
    resource: "box",
    status: 200,
    address: "127.0.0.1",
    requestId,
  });
  await server.create({}, {});
  await server.create({ name: "box" });
  await server.call("DELETE", "/v0/sandboxes/nobody");
  await server.call("GET", "/v0/sandboxes/box");
  await server.call("POST", "/v0/workspaces/availability", { body: { name: "x" } });
  const [unknown, conflict, named] = await entries(server);
  assert.deepEqual([unknown?.status, unknown?.resource, unknown?.error], [404, "nobody", "not_found"]);
  assert.deepEqual([conflict?.status, conflict?.resource], [409, undefined]);
  assert.match(named?.resource ?? "", /^sandbox-/);
});

test("refusals are there too, but nobody can fill the log with them", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  for (let count = 0; count < 100; count++) await server.call("GET", "/v0/users", { key: mia.apiKey });
  const refused = await until("the refusals are recorded", async () => {
    const found = await entries(server, `?sub=${mia.id}&limit=200`);
    return found.length > 0 ? found : undefined;
  });
  assert.ok(refused.length < 40, String(refused.length));
  assert.ok(refused.every(({ status, operation, error }) => status === 403 && operation === "GET /users" && error));
  await using other = await startServer();
  await other.call("GET", "/v0/users", { key: "ck_wrong" });
  await other.call("POST", "/v0/workspaces", { body: { name: "lab" } });
  const all = (await other.operate("GET", "/v0/audit-log")).body.data as AuditEntry[];
  assert.deepEqual(all.map(({ operation, status }) => [operation, status]).sort(), [
    ["GET /users", 401],
    ["POST /workspaces", 200],
  ]);
});

test("a workspace's administrators read its log, nobody else, and the operator everything", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  await addWorkspace(server, "lab", mia.apiKey);
  const inLab = { key: mia.apiKey, headers: { "x-blaxel-workspace": "lab" } };
  await server.create({ name: "theirs" }, inLab);
  await server.create({ name: "ours" });
  const lab = await server.call("GET", "/v0/audit_logs", inLab);
  assert.deepEqual(
    lab.body.data.map(({ resource }: AuditEntry) => resource),
    ["theirs", "lab"],
  );
  assert.deepEqual(
    (await entries(server)).map(({ resource }) => resource),
    ["ours"],
  );
  assert.equal((await server.call("GET", "/v0/audit_logs", { key: mia.apiKey })).status, 403);
  assert.equal((await server.call("GET", "/v0/audit_logs", { key: null })).status, 401);
  const all = await server.operate("GET", "/v0/audit-log?limit=200");
  const resources = all.body.data.map(({ resource }: AuditEntry) => resource);
  for (const resource of ["ours", "theirs", "lab"]) assert.ok(resources.includes(resource));
});

test("pages lead through the whole log without gaps, and bad parameters are named", async () => {
  await using server = await startServer();
  const names = Array.from({ length: 50 }, (_, index) => `s-${index}`);
  const answers = await Promise.all(names.map((name) => server.create({ name })));
  assert.ok(answers.every(({ status }) => status === 200));
  const seen: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < 10; page++) {
    const answer = await server.call("GET", `/v0/audit_logs?limit=7${cursor ? `&cursor=${cursor}` : ""}`);
    seen.push(...answer.body.data.map(({ resource }: AuditEntry) => resource));
    cursor = answer.body.meta.nextCursor;
    assert.equal(answer.body.meta.hasMore, cursor !== undefined);
    if (cursor === undefined) break;
  }
  assert.deepEqual(seen.toSorted(), names.toSorted());
  for (const query of ["limit=0", "limit=201", "limit=x", "cursor=%27", "cursor=a", "since=yesterday", "since=2020"]) {
    const answer = await server.call("GET", `/v0/audit_logs?${query}`);
    assert.equal(answer.status, 400, query);
    assert.ok(answer.body.message.includes(query.split("=")[0]!));
  }
  assert.equal((await entries(server, "?since=2020-01-01T00:00:00Z&limit=200")).length, 50);
  assert.equal((await entries(server, "?since=2999-01-01T00:00:00Z")).length, 0);
});

test("secrets never reach it", async () => {
  await using server = await startServer();
  const secret = "hunter2hunter2";
  await server.create({ name: "box", spec: { runtime: { envs: [{ name: "K", value: secret, secret: true }] } } });
  await server.create({ name: secret.toUpperCase(), spec: {} });
  await server.call("POST", `/v0/service_accounts?token=${secret}`, { body: { name: "robot", client_secret: secret } });
  const key = await server.call("POST", "/v0/profile/api_keys", { body: { name: "mine" } });
  await server.call("GET", "/v0/users", { key: secret });
  await server.call("POST", "/v0/sandboxes", {
    rawBody: `{"x":"${secret}`,
    headers: { "content-type": "application/json" },
  });
  const rows = JSON.stringify(await server.query("select * from audit_log"));
  assert.ok(rows.includes("robot") || rows.includes("service_accounts"));
  for (const text of [secret, secret.toUpperCase(), key.body.apiKey, server.apiKey])
    assert.ok(!rows.includes(text), text);
});

test("what is old or too much is removed", async () => {
  await using server = await startServer({
    settings: { CATNAP_AUDIT_ENTRIES_MAX: "1000", CATNAP_AUDIT_RETENTION: "1d" },
  });
  const insert = (id: string) =>
    server.query("insert into audit_log (id, at, operation, status, request_id) values (?, ?, 'x', 200, 'r')", id, "t");
  await insert(`${firstIdAt(Date.now() - 2 * 86_400_000)}0000aaaaaa`);
  const start = firstIdAt(Date.now() - 60_000);
  await server.query(
    `insert into audit_log (id, at, operation, status, request_id)
     with recursive n(i) as (select 1000 union all select i + 1 from n where i < 2009)
     select ? || i || 'aaaaaa', 't', 'x', 200, 'r' from n`,
    start,
  );
  await server.controlPlane.audit.service.purge();
  const [{ many } = { many: 0 }] = await server.query<{ many: number }>("select count(*) as many from audit_log");
  assert.equal(Number(many), 1_000);
});

test("entries that come together share a commit; when the database fails the log has them", async () => {
  const batches: string[][] = [];
  const errors: unknown[] = [];
  let failing = false;
  const store = {
    async insert(rows: readonly AuditLogTable[]) {
      batches.push(rows.map(({ resource }) => resource!));
      if (failing) throw new Error("disk full");
    },
  };
  const log = { error: (fields: unknown) => errors.push(fields) };
  const writer = new AuditWriter(store, log as never);
  const draft = (resource: string) => ({ resource }) as AuditLogTable;
  await Promise.all(["a", "b", "c"].map((name) => writer.write(draft(name))));
  assert.deepEqual(batches, [["a", "b", "c"]]);
  failing = true;
  await writer.write(draft("d"));
  assert.equal(errors.length, 1);
  failing = false;
  await writer.write(draft("e"));
  assert.deepEqual(batches.at(-1), ["e"]);
});

test("an upload is told of, in its workspace, and so is a refused one", async () => {
  await using server = await startServer();
  const { url } = await askUpload(server, "deps");
  const versionId = new URL(url).pathname.split("/").at(-1)!;
  assert.equal((await send(url, smallArchive)).status, 200);
  assert.equal((await send(`${url}x`, smallArchive)).status, 403);
  const told = await until("both are told of", async () => {
    const { data } = (await server.operate("GET", "/v0/audit-log")).body;
    const uploads = data.filter(({ operation }: { operation: string }) => operation === "PUT /uploads/:versionId");
    return uploads.length === 2 ? uploads : undefined;
  });
  assert.deepEqual(
    told.map(({ status, resource }: { status: number; resource: string }) => [status, resource]),
    [
      [403, versionId],
      [200, versionId],
    ],
  );
  const own = (await server.call("GET", "/v0/audit_logs")).body.data;
  assert.ok(own.some(({ operation }: { operation: string }) => operation === "PUT /uploads/:versionId"));
  assert.ok(!JSON.stringify(told).includes(new URL(url).searchParams.get("signature")!));
});
