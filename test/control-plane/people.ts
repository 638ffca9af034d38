// People, workspaces and keys for tests, made as the platform makes them.
import assert from "node:assert/strict";
import type { Role } from "../../src/control-plane/auth/scopes.ts";
import type { Server } from "./harness.ts";

export type Person = { id: string; name: string; email: string; apiKey: string; keyId: string };

/** A person with a key whose own workspace is the first one, or the given one; without a role the person belongs to none. */
export async function addPerson(
  server: Server,
  name: string,
  {
    role = "member",
    workspace = "main",
    password,
  }: { role?: Role | "none"; workspace?: string; password?: string } = {},
): Promise<Person> {
  const { users, apiKeys } = server.controlPlane.identity;
  const email = `${name}@example.com`;
  const { id } = await users.add({
    name,
    email,
    ...(password !== undefined && { password }),
    ...(role !== "none" && { membership: { workspace, role } }),
  });
  const [membership] = await users.listMemberships(id);
  const order = { owner: { user_id: id }, workspaceId: membership?.workspaceId ?? null, createdBy: name };
  const key = await apiKeys.create({ ...order, granted: ["admin"] }, { name: "test" });
  return { id, name, email, apiKey: key.apiKey, keyId: key.id };
}

export async function firstUserId(server: Server): Promise<string> {
  const [user] = await server.query<{ id: string }>("select id from users where name = 'admin'");
  return user?.id ?? assert.fail("no first user");
}

/** The operator turns back time. */
export async function expireKey(server: Server, keyId: string): Promise<void> {
  await server.query("update api_keys set expires_at = ? where id = ?", "2020-01-01T00:00:00.000Z", keyId);
}

/** A new workspace of the first administrator's, by name. */
export async function addWorkspace(server: Server, name: string, key = server.apiKey): Promise<void> {
  const answer = await server.call("POST", "/v0/workspaces", { body: { name }, key });
  assert.equal(answer.status, 200, answer.text);
}
