// The first start on an empty database: makes the workspace `main`, an administrator and an API key.
import { randomToken } from "../core/ids.ts";
import type { SealKey } from "../core/seal.ts";
import { generateSecret, hashSecret } from "./auth/secrets.ts";
import type { Database, Queries } from "./db/database.ts";
import { requireSealKeys } from "./seal-keys/installation.ts";

export const firstWorkspace = "main";
const firstUser = "admin";

export type Bootstrap = {
  workspace: string;
  workspaceId: string;
  /** Only at the first start; afterwards nobody knows it but who was told. */
  apiKey: string | undefined;
};

export type BootstrapOptions = {
  database: Database;
  sealKey: SealKey;
  /** Called with the key before it begins to exist, so that a crash cannot leave a key that nobody was told. */
  saveFirstKey?: (apiKey: string) => void;
};

export async function ensureBootstrap({ database, sealKey, saveFirstKey }: BootstrapOptions): Promise<Bootstrap> {
  return database.transactDurably(async (queries) => {
    const installation = await queries.selectFrom("installation").select("id").executeTakeFirst();
    if (installation === undefined) return createFirst(queries, sealKey, saveFirstKey);
    await requireSealKeys(queries, sealKey);
    const workspace = await queries
      .selectFrom("workspaces")
      .select(["id", "name"])
      .orderBy("deleted_at", (order) => order.desc().nullsFirst())
      .orderBy("created_at")
      .executeTakeFirstOrThrow();
    return { workspace: workspace.name, workspaceId: workspace.id, apiKey: undefined };
  });
}

async function createFirst(
  queries: Queries,
  sealKey: SealKey,
  saveFirstKey: BootstrapOptions["saveFirstKey"],
): Promise<Bootstrap> {
  const now = new Date().toISOString();
  const workspaceId = randomToken(9);
  const userId = randomToken(16);
  const apiKey = generateSecret("apiKey");
  await queries
    .insertInto("installation")
    .values({ id: 1, seal_key_id: sealKey.id, previous_seal_key_id: null, created_at: now })
    .execute();
  await queries.insertInto("workspaces").values({ id: workspaceId, name: firstWorkspace, created_at: now }).execute();
  await queries.insertInto("users").values({ id: userId, name: firstUser, created_at: now }).execute();
  await queries
    .insertInto("members")
    .values({ workspace_id: workspaceId, user_id: userId, role: "admin", created_at: now })
    .execute();
  await queries
    .insertInto("api_keys")
    .values({
      id: randomToken(16),
      workspace_id: workspaceId,
      user_id: userId,
      name: "first start",
      token_hash: hashSecret(apiKey),
      created_at: now,
      expires_at: null,
    })
    .execute();
  saveFirstKey?.(apiKey);
  return { workspace: firstWorkspace, workspaceId, apiKey };
}
