// What becomes of what was in a workspace when it is deleted: nothing is left but what is meant to be.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goesWithWorkspace, staysAfterWorkspace } from "../../src/control-plane/workspaces/contents.ts";
import { testsOnPostgres } from "./databases.ts";
import { type Server, startServer } from "./harness.ts";
import { addWorkspace } from "./people.ts";

/** Every table with rows that name a workspace, as the database itself has it. */
async function tablesOf(server: Server): Promise<string[]> {
  const schema = testsOnPostgres
    ? "select table_name as name from information_schema.columns where column_name = ? and table_schema = 'public'"
    : "select m.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' and c.name = ?";
  return (await server.query<{ name: string }>(schema, "workspace_id")).map(({ name }) => name).sort();
}

async function countIn(server: Server, table: string, workspaceId: string): Promise<number> {
  const [row] = await server.query<{ count: number | string }>(
    `select count(*) as count from ${table} where workspace_id = ?`,
    workspaceId,
  );
  return Number(row?.count);
}

/** Requests that each leave something behind in the workspace. */
function fillers(server: Server, workspace: string): (() => Promise<{ status: number; text: string }>)[] {
  const headers = { "x-blaxel-workspace": workspace };
  const post = (path: string, body: object) => () => server.call("POST", path, { headers, body });
  const named = { metadata: { name: "one" } };
  const locations = [{ type: "location", name: "local" }];
  return [
    post("/v0/users", { email: "mia@example.com" }),
    post("/v0/service_accounts", { name: "robot" }),
    post("/v0/profile/api_keys", { name: "key" }),
    post("/v0/integrations/connections", { ...named, spec: { secret: { apiKey: "sk-zebra-4711-crossing" } } }),
    post("/v0/policies", { ...named, spec: { type: "location", resourceTypes: ["sandbox"], locations } }),
    () => server.operate("PUT", `/v0/workspaces/${workspace}/features/a`, { body: { enabled: true } }),
    () => server.operate("PUT", `/v0/workspaces/${workspace}/quotas/memory`, { body: { value: 8_192 } }),
  ];
}

test("every table that names a workspace is empty of a deleted one, except those with a reason", async () => {
  await using server = await startServer();
  await addWorkspace(server, "lab");
  const headers = { "x-blaxel-workspace": "lab" };
  const { id } = (await server.call("GET", "/v0/workspaces/lab")).body;
  for (const fill of fillers(server, "lab")) {
    const { status, text } = await fill();
    assert.equal(status, 200, text);
  }
  const keyed = { headers: { ...headers, "idempotency-key": "once" } };
  const envs = [{ name: "KEY", valueFrom: { secretKeyRef: { name: "one", key: "apiKey" } } }];
  assert.equal((await server.create({ name: "box", spec: { runtime: { envs } } }, keyed)).status, 200);
  server.host.images.push({
    name: "docker.io/library/busybox:1",
    kind: "pulled",
    updatedAt: "2026-01-01T00:00:00.000Z",
  });
  const ofImage = { name: "other", spec: { runtime: { image: "docker.io/library/busybox:1" } } };
  assert.equal((await server.create(ofImage, { headers })).status, 200);
  const before = await Promise.all(goesWithWorkspace.map(async (table) => [table, await countIn(server, table, id)]));
  const unused = before.filter(([, count]) => count === 0).map(([table]) => table);
  // Those have to be gone before the workspace may go.
  assert.deepEqual(unused, ["volume_template_versions", "volume_templates", "preview_tokens", "previews"]);
  for (const name of ["box", "other"])
    assert.equal((await server.call("DELETE", `/v0/sandboxes/${name}`, { headers })).status, 200);

  assert.equal((await server.call("DELETE", "/v0/workspaces/lab")).status, 200);
  const tables = await tablesOf(server);
  assert.deepEqual(tables, [...goesWithWorkspace, ...Object.keys(staysAfterWorkspace)].sort());
  for (const table of goesWithWorkspace) assert.equal(await countIn(server, table, id), 0, table);
  assert.equal(await countIn(server, "api_keys", id), 0);
  assert.ok((await countIn(server, "audit_log", id)) > 0);
});

test("what is made in a workspace in the moment in which it is deleted is not left behind", async () => {
  await using server = await startServer();
  let deletions = 0;
  for (let round = 0; round < 8; round++) {
    const name = `lab-${round}`;
    await addWorkspace(server, name);
    const { id } = (await server.call("GET", `/v0/workspaces/${name}`)).body;
    const template = { metadata: { name: "one" }, spec: {} };
    const headers = { "x-blaxel-workspace": name };
    const [deleted, ...made] = await Promise.all([
      server.call("DELETE", `/v0/workspaces/${name}`),
      ...fillers(server, name).map((fill) => fill()),
      server.call("PUT", "/v0/volume_templates/one?upload=true", { headers, body: template }),
    ]);
    // A template that came first is in the way; all else goes along.
    assert.ok([200, 409].includes(deleted!.status), deleted!.text);
    for (const { status, text } of made) assert.ok([200, 403, 404].includes(status), text);
    if (deleted!.status !== 200) continue;
    deletions++;
    for (const table of goesWithWorkspace) assert.equal(await countIn(server, table, id), 0, table);
  }
  assert.ok(deletions > 0);
});

test("what earlier versions left of deleted workspaces goes at the next start", async () => {
  await using server = await startServer();
  await addWorkspace(server, "lab");
  const { id } = (await server.call("GET", "/v0/workspaces/lab")).body;
  assert.equal((await server.call("DELETE", "/v0/workspaces/lab")).status, 200);
  const { workspaceId } = server.controlPlane.bootstrap;
  for (const each of [id, workspaceId]) {
    await server.query(
      "insert into workspace_quotas (workspace_id, resource_type, value, updated_at) values (?, 'memory', 1, '')",
      each,
    );
  }
  await server.query("delete from kysely_migration where name = ?", "0015-deleted-workspaces");
  const { dataDir, apiKey } = server;
  await using again = await startServer({ dataDir, apiKey });
  assert.equal(await countIn(again, "workspace_quotas", id), 0);
  assert.equal(await countIn(again, "workspace_quotas", workspaceId), 1);
});
