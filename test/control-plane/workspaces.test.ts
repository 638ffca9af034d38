// Workspaces and who belongs to them: created, found, changed, left and deleted; members, roles and invitations.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "./harness.ts";
import { addPerson, addWorkspace } from "./people.ts";

test("whoever creates a workspace is its administrator, and nobody else sees it", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia");
  const body = { name: "lab", displayName: "The Lab", labels: { team: "a" }, id: "ignored", status: "error" };
  const created = await server.call("POST", "/v0/workspaces", { key: mia.apiKey, body });
  assert.equal(created.status, 200);
  assert.match(created.body.id, /^[a-z0-9]{9}$/);
  const { name, displayName, labels, createdBy, status } = created.body;
  assert.deepEqual([name, displayName, labels, createdBy, status], ["lab", "The Lab", { team: "a" }, "mia", "ready"]);
  const names = async (key: string) =>
    (await server.call("GET", "/v0/workspaces", { key })).body.map((each: { name: string }) => each.name);
  assert.deepEqual(await names(mia.apiKey), ["lab", "main"]);
  assert.deepEqual(await names(server.apiKey), ["main"]);
  for (const [method, path] of [
    ["GET", ""],
    ["PUT", ""],
    ["DELETE", ""],
    ["DELETE", "/leave"],
  ] as const) {
    const answer = await server.call(method, `/v0/workspaces/lab${path}`, { body: method === "PUT" ? {} : undefined });
    assert.equal(answer.status, 404, `${method} ${path}`);
    const unknown = await server.call(method, `/v0/workspaces/nowhere${path}`, {
      body: method === "PUT" ? {} : undefined,
    });
    assert.equal(unknown.text, answer.text);
  }
  const changed = await server.call("PUT", "/v0/workspaces/lab", {
    key: mia.apiKey,
    body: { ...created.body, displayName: null },
  });
  assert.equal(changed.status, 200);
  assert.equal(changed.body.displayName, undefined);
  assert.deepEqual(changed.body.labels, { team: "a" });
  assert.equal(
    (await server.call("PUT", "/v0/workspaces/lab", { key: mia.apiKey, body: { name: "other" } })).status,
    400,
  );
  assert.equal((await server.call("PUT", "/v0/workspaces/main", { key: mia.apiKey, body: {} })).status, 403);
  assert.equal((await server.call("DELETE", "/v0/workspaces/main", { key: mia.apiKey })).status, 403);
});

test("a name is available until it is taken, unless it is reserved", async () => {
  await using server = await startServer();
  const ask = (name: unknown, query = "") =>
    server.call("POST", `/v0/workspaces/availability${query}`, { body: { name } });
  assert.equal((await ask("lab")).text, "true");
  assert.equal((await ask("main")).text, "false");
  assert.deepEqual((await ask("lab", "?withReason=true")).body, { available: true });
  const cases = [
    ["main", "taken"],
    ["admin", "forbidden_reserved"],
    ["my-blaxel", "forbidden_blaxel"],
    ["v0", "forbidden_v_prefix"],
    ["v2-x", "forbidden_v_prefix"],
  ] as const;
  for (const [name, reason] of cases) {
    const answer = await ask(name, "?withReason=true");
    assert.equal(answer.body.available, false);
    assert.equal(answer.body.reason, reason);
    assert.ok(answer.body.message.length > 10);
    const created = await server.call("POST", "/v0/workspaces", { body: { name } });
    assert.equal(created.status, reason === "taken" ? 409 : 400, name);
  }
  for (const name of ["", "-a", "a-", "A", "a b", "a".repeat(50), 7, undefined]) {
    assert.equal((await ask(name)).status, 400, String(name));
    assert.equal((await server.call("POST", "/v0/workspaces", { body: { name } })).status, 400, String(name));
  }
  assert.equal((await ask("a".repeat(49))).text, "true");
});

test("of many creations of one name at once one succeeds", async () => {
  await using server = await startServer();
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => server.call("POST", "/v0/workspaces", { body: { name: "lab" } })),
  );
  const count = (status: number) => answers.filter((answer) => answer.status === status).length;
  assert.deepEqual([count(200), count(409)], [1, 19]);
});

test("only an empty workspace can be deleted; then it is gone, its name is free and its keys act elsewhere", async () => {
  await using server = await startServer();
  await addWorkspace(server, "lab");
  const inLab = { headers: { "x-blaxel-workspace": "lab" } };
  const key = await server.call("POST", "/v0/profile/api_keys", { ...inLab, body: { name: "lab" } });
  const robot = await server.call("POST", "/v0/service_accounts", { ...inLab, body: { name: "robot" } });
  const path = `/v0/service_accounts/${robot.body.client_id}/api_keys`;
  const robotKey = await server.call("POST", path, { ...inLab, body: {} });
  await server.create({ name: "one" }, inLab);
  const counted = await server.call("GET", "/v0/workspaces/lab?countResources=true");
  const { sandboxes, serviceaccounts } = counted.body.resourceCounts;
  assert.deepEqual([sandboxes, serviceaccounts], [1, 1]);
  const refused = await server.call("DELETE", "/v0/workspaces/lab");
  assert.equal(refused.status, 409);
  assert.match(refused.body.message, /1 sandboxes/);
  await server.call("DELETE", "/v0/sandboxes/one", inLab);
  const deleted = await server.call("DELETE", "/v0/workspaces/lab");
  assert.equal(deleted.status, 200, deleted.text);
  assert.equal(deleted.body.name, "lab");
  assert.equal((await server.call("GET", "/v0/workspaces/lab")).status, 404);
  assert.equal((await server.call("GET", "/v0/sandboxes", inLab)).status, 404);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: robotKey.body.apiKey })).status, 401);
  assert.equal((await server.call("GET", "/v0/workspaces/main", { key: key.body.apiKey })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: key.body.apiKey })).status, 200);
  assert.equal(await server.controlPlane.directory.findWorkspaceById(deleted.body.id), undefined);
  await addWorkspace(server, "lab");
  assert.deepEqual((await server.call("GET", "/v0/sandboxes", inLab)).body, []);
});

test("deleting a workspace and creating sandboxes in it at once leaves none behind", async () => {
  await using server = await startServer();
  for (let round = 0; round < 5; round++) {
    await addWorkspace(server, `lab-${round}`);
    const headers = { "x-blaxel-workspace": `lab-${round}` };
    const [deleted, ...created] = await Promise.all([
      server.call("DELETE", `/v0/workspaces/lab-${round}`),
      ...Array.from({ length: 4 }, (_, index) => server.create({ name: `s-${index}` }, { headers })),
    ]);
    if (deleted!.status === 200) assert.ok(created.every(({ status }) => status !== 200));
    else assert.equal(deleted!.status, 409);
  }
});

test("a person is invited, sees the invitation, accepts or declines it", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia", { role: "none" });
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: mia.apiKey })).status, 403);
  const invited = await server.call("POST", "/v0/users", { body: { email: "Mia@Example.com", role: "admin" } });
  assert.equal(invited.status, 200);
  assert.equal(invited.body.email, mia.email);
  assert.equal(invited.body.workspace, "main");
  const again = await server.call("POST", "/v0/users", { body: { email: mia.email } });
  assert.equal(again.body.role, "member");
  const listed = await server.call("GET", "/v0/profile/invitations", { key: mia.apiKey });
  assert.deepEqual(listed.body, [again.body]);
  assert.deepEqual((await server.call("GET", "/v0/profile/invitations")).body, []);
  assert.equal((await server.call("POST", "/v0/workspaces/main/decline", { key: mia.apiKey })).status, 200);
  assert.equal((await server.call("POST", "/v0/workspaces/main/join", { key: mia.apiKey })).status, 404);
  await server.call("POST", "/v0/users", { body: { email: mia.email } });
  assert.equal((await server.call("POST", "/v0/workspaces/main/join")).status, 404);
  const joined = await server.call("POST", "/v0/workspaces/main/join", { key: mia.apiKey });
  assert.equal(joined.body.name, "main");
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: mia.apiKey })).status, 200);
  const twice = await server.call("POST", "/v0/users", { body: { email: mia.email } });
  assert.equal(twice.status, 409);
  const users = await server.call("GET", "/v0/users");
  const found = users.body.find(({ sub }: { sub?: string }) => sub === mia.id);
  assert.deepEqual(found, {
    sub: mia.id,
    email: mia.email,
    email_verified: true,
    role: "member",
    accepted: true,
    expired: false,
  });
  for (const email of ["", "a", "a@", "@b", "a b@c.d", "a@b@c", `${"a".repeat(65)}@b.c`, "ä@b.c", 3]) {
    assert.equal((await server.call("POST", "/v0/users", { body: { email } })).status, 400, String(email));
  }
});

test("an expired invitation lets nobody in", async () => {
  await using server = await startServer();
  const mia = await addPerson(server, "mia", { role: "none" });
  await server.call("POST", "/v0/users", { body: { email: mia.email } });
  await server.query("update invitations set expires_at = ?", "2020-01-01T00:00:00.000Z");
  assert.deepEqual((await server.call("GET", "/v0/profile/invitations", { key: mia.apiKey })).body, []);
  assert.equal((await server.call("POST", "/v0/workspaces/main/join", { key: mia.apiKey })).status, 404);
  const users = await server.call("GET", "/v0/users");
  assert.equal(users.body.find(({ email }: { email?: string }) => email === mia.email).expired, true);
  assert.equal((await server.call("DELETE", `/v0/users/${mia.email}`)).body.accepted, false);
  assert.equal((await server.call("DELETE", `/v0/users/${mia.email}`)).status, 404);
});

test("a role changes and a membership ends with the very next request, at the edge too", async () => {
  await using server = await startServer();
  const { directory } = server.controlPlane;
  const mia = await addPerson(server, "mia", { role: "admin" });
  const key = mia.apiKey;
  const users = () => server.call("GET", "/v0/users", { key });
  assert.equal((await users()).status, 200);
  assert.equal((await directory.authorize(key, "main")).role, "admin");
  assert.equal((await server.call("PUT", `/v0/users/${mia.id}`, { body: { role: "member" } })).body.role, "member");
  assert.equal((await users()).status, 403);
  assert.equal((await directory.authorize(key, "main")).role, "member");
  assert.equal((await server.call("PUT", `/v0/users/${mia.email}`, { body: { role: "owner" } })).status, 400);
  assert.equal((await server.call("PUT", `/v0/users/${mia.email}`, { body: { role: "admin" } })).status, 200);
  assert.equal((await users()).status, 200);
  assert.equal((await server.call("DELETE", `/v0/users/${mia.email}`)).body.sub, mia.id);
  assert.equal((await users()).status, 403);
  await assert.rejects(async () => directory.authorize(key, "main"), { code: "forbidden" });
  assert.equal((await server.call("DELETE", "/v0/users/nobody")).status, 404);
});

test("a workspace keeps an administrator, whoever leaves, is removed or demoted, and however many at once", async () => {
  await using server = await startServer();
  const adminId = (await server.call("GET", "/v0/users")).body[0].sub;
  const asserting = async (answer: Promise<{ status: number; body: { message: string } }>) => {
    const { status, body } = await answer;
    assert.equal(status, 409);
    assert.match(body.message, /without an administrator/);
  };
  await asserting(server.call("DELETE", "/v0/workspaces/main/leave"));
  await asserting(server.call("DELETE", `/v0/users/${adminId}`));
  await asserting(server.call("PUT", `/v0/users/${adminId}`, { body: { role: "member" } }));
  const mia = await addPerson(server, "mia", { role: "admin" });
  const answers = await Promise.all([
    server.call("DELETE", `/v0/users/${mia.id}`),
    server.call("DELETE", `/v0/users/${adminId}`, { key: mia.apiKey }),
    server.call("DELETE", "/v0/workspaces/main/leave"),
    server.call("DELETE", "/v0/workspaces/main/leave", { key: mia.apiKey }),
  ]);
  assert.ok(answers.every(({ status }) => [200, 403, 404, 409].includes(status)));
  const [left] = await server.query<{ many: number }>("select count(*) as many from members where role = 'admin'");
  assert.equal(Number(left?.many), 1);
  const member = await addPerson(server, "max");
  assert.equal((await server.call("DELETE", "/v0/workspaces/main/leave", { key: member.apiKey })).status, 200);
  assert.equal((await server.call("GET", "/v0/sandboxes", { key: member.apiKey })).status, 403);
});
