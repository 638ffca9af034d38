// Turns a credential into a caller: looks its hash up, remembers it briefly, and resolves the workspace it acts in.
import { BoundedMap } from "../../core/bounded-map.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { generateApiKey, hashApiKey } from "./api-keys.ts";
import type { Caller } from "./caller.ts";
import type { AuthStore, CredentialRow } from "./store.ts";

const verifiedMax = 10_000;
/** How long a change made by another process may go unseen; a revocation by this one takes effect at once. */
const verifiedTtlMs = 5_000;

type Verified = { row: CredentialRow; at: number };

export class Authentication {
  readonly #store: AuthStore;
  /** By hash: the keys themselves are not kept in memory, and lookups reveal nothing by their timing. */
  readonly #verified = new BoundedMap<string, Verified>(verifiedMax);

  constructor(store: AuthStore) {
    this.#store = store;
  }

  /** Throws `unauthenticated` when the credential is unknown, expired or revoked. */
  authenticate(credential: string): Caller {
    const { user_id, user_name, workspace_id, workspace, role } = this.#verify(credential);
    return { principalId: user_id, principalName: user_name, role, workspaceId: workspace_id, workspace };
  }

  /** The caller acting in a workspace chosen by name; its own when none is. */
  enter(caller: Caller, workspace: string | undefined): Caller {
    if (workspace === undefined || workspace === caller.workspace) return caller;
    const workspaceId = this.#store.findWorkspaceId(workspace);
    if (workspaceId === undefined) throw new AppError("not_found", "There is no such workspace.");
    const role = this.#store.findRole(workspaceId, caller.principalId);
    if (role === undefined) throw new AppError("forbidden", "The credential does not give access to this workspace.");
    return { ...caller, workspace, workspaceId, role };
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
    const tokenHash = await this.#store.revokeApiKey(workspaceId, keyId, new Date().toISOString());
    if (tokenHash === undefined) throw new AppError("not_found", "There is no such API key.");
    this.#verified.delete(tokenHash);
  }

  #verify(credential: string): CredentialRow {
    const tokenHash = hashApiKey(credential);
    const now = Date.now();
    let verified = this.#verified.get(tokenHash);
    if (verified === undefined || now - verified.at > verifiedTtlMs) {
      const row = this.#store.findCredential(tokenHash);
      if (row === undefined || row.revoked_at !== null) throw rejected();
      verified = { row, at: now };
      this.#verified.set(tokenHash, verified);
    }
    const { expires_at } = verified.row;
    if (expires_at !== null && Date.parse(expires_at) <= now) throw rejected();
    return verified.row;
  }
}

function rejected(): AppError {
  return new AppError("unauthenticated", "The credential is unknown, expired or revoked.");
}
