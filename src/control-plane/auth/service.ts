// Turns a credential into a caller, and resolves the workspace it acts in.
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { generateApiKey, hashApiKey } from "./api-keys.ts";
import type { Caller } from "./caller.ts";
import { scopesOfRole } from "./scopes.ts";
import type { AuthStore, CredentialRow } from "./store.ts";

export class Authentication {
  readonly #store: AuthStore;

  constructor(store: AuthStore) {
    this.#store = store;
  }

  /** Throws `unauthenticated` when the credential is unknown, expired or revoked. */
  async authenticate(credential: string): Promise<Caller> {
    const { key_id, user_id, user_name, workspace_id, workspace, role } = await this.#verify(credential);
    return {
      principalId: user_id,
      kind: "user",
      principalName: user_name,
      role,
      workspaceId: workspace_id,
      workspace,
      scopes: scopesOfRole(role),
      credentialId: key_id,
    };
  }

  /** The caller acting in a workspace chosen by name; its own when none is. */
  async enter(caller: Caller, workspace: string | undefined): Promise<Caller> {
    if (workspace === undefined || workspace === caller.workspace) return caller;
    const workspaceId = isWorkspaceName(workspace) ? await this.#store.findWorkspaceId(workspace) : undefined;
    if (workspaceId === undefined) throw new AppError("not_found", "There is no such workspace.");
    const role = await this.#store.findRole(workspaceId, caller.principalId);
    if (role === undefined) throw new AppError("forbidden", "The credential does not give access to this workspace.");
    return { ...caller, workspace, workspaceId, role, scopes: scopesOfRole(role) };
  }

  /** The key is returned here and never again. */
  async createApiKey(options: {
    workspaceId: string;
    userId: string;
    name: string;
    expiresAt?: Date;
  }): Promise<{ id: string; apiKey: string }> {
    const apiKey = generateApiKey();
    const id = randomToken(16);
    await this.#store.insertApiKey({
      id,
      workspace_id: options.workspaceId,
      user_id: options.userId,
      service_account_id: null,
      name: options.name,
      token_hash: hashApiKey(apiKey),
      created_at: new Date().toISOString(),
      expires_at: options.expiresAt?.toISOString() ?? null,
      revoked_at: null,
    });
    return { id, apiKey };
  }

  /** Resolves once no request is accepted with the key any more. */
  async revokeApiKey(workspaceId: string, keyId: string): Promise<void> {
    const revoked = await this.#store.revokeApiKey(workspaceId, keyId, new Date().toISOString());
    if (!revoked) throw new AppError("not_found", "There is no such API key.");
  }

  /** Looked up by hash: neither the key nor its timing tells anything. The store keeps answers in memory until a change. */
  async #verify(credential: string): Promise<CredentialRow> {
    const row = await this.#store.findCredential(hashApiKey(credential));
    if (row === undefined || row.revoked_at !== null) throw rejected();
    if (row.expires_at !== null && Date.parse(row.expires_at) <= Date.now()) throw rejected();
    return row;
  }
}

/** Anything longer is not even looked up. */
function isWorkspaceName(text: string): boolean {
  return /^[a-z0-9-]{1,63}$/.test(text);
}

function rejected(): AppError {
  return new AppError("unauthenticated", "The credential is unknown, expired or revoked.");
}
