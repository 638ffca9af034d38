// Turns a credential into who asks, and resolves the workspace it acts in.
import { adminScope } from "../../contract/scopes.ts";
import { AppError } from "../../core/errors.ts";
import { type Eventual, proceed } from "../../core/eventual.ts";
import type { Caller, Membership, Principal } from "./caller.ts";
import { effectiveScopes } from "./scopes.ts";
import { hashSecret } from "./secrets.ts";
import type { AuthStore, KeyRow } from "./store.ts";

/** What a verified access token says. */
export type TokenClaims = {
  subjectId: string;
  kind: "user" | "service_account";
  scopes: readonly string[];
  tokenId: string;
  expiresAt: number;
};

export type AuthenticationOptions = {
  store: AuthStore;
  /** Undefined for a token that is not, or no longer, one of ours. */
  verifyToken: (token: string) => Promise<TokenClaims | undefined>;
  /** Called on the path of each request: it must only take note. */
  onKeyUsed?: (keyId: string) => void;
};

/** An API key grants everything its owner may do. */
const everything: readonly string[] = [adminScope];

export class Authentication {
  readonly #store: AuthStore;
  readonly #verifyToken: AuthenticationOptions["verifyToken"];
  readonly #onKeyUsed: (keyId: string) => void;

  constructor({ store, verifyToken, onKeyUsed = () => undefined }: AuthenticationOptions) {
    this.#store = store;
    this.#verifyToken = verifyToken;
    this.#onKeyUsed = onKeyUsed;
  }

  /** Throws `unauthenticated` when the credential is unknown, expired or revoked, or its owner disabled or gone. */
  authenticate(credential: string): Eventual<Principal> {
    if (isToken(credential)) return this.#authenticateToken(credential);
    // Looked up by hash: neither the key nor its timing tells anything. The store keeps answers in memory until a change.
    return proceed(this.#store.findKey(hashSecret(credential)), (row) => {
      if (row === undefined || row.disabled_at !== null) throw rejected();
      if (row.expires_at !== null && Date.parse(row.expires_at) <= Date.now()) throw rejected();
      this.#onKeyUsed(row.key_id);
      return principalOfKey(row);
    });
  }

  /** The principal acting in a workspace chosen by name, or in its own or only one. */
  enter(principal: Principal, workspace: string | undefined): Eventual<Caller> {
    const { home } = principal;
    if (home !== undefined && (workspace === undefined || workspace === home.workspace)) return act(principal, home);
    return this.#enterOther(principal, workspace);
  }

  /** Whether the person or service account could act in the workspace right now, with whatever credential. */
  async belongsTo(workspaceId: string, principalId: string): Promise<boolean> {
    if ((await this.#store.findServiceAccount(principalId))?.workspace_id === workspaceId) return true;
    if ((await this.#store.findRole(workspaceId, principalId)) === undefined) return false;
    return (await this.#store.findUser(principalId))?.disabled_at === null;
  }

  async #enterOther(principal: Principal, workspace: string | undefined): Promise<Caller> {
    if (workspace === undefined) return act(principal, await this.#findOnly(principal));
    const workspaceId = isWorkspaceName(workspace) ? await this.#store.findWorkspaceId(workspace) : undefined;
    if (workspaceId === undefined) throw new AppError("not_found", "There is no such workspace.");
    const role = principal.kind === "user" ? await this.#store.findRole(workspaceId, principal.principalId) : undefined;
    if (role === undefined) throw new AppError("forbidden", "The credential does not give access to this workspace.");
    return act(principal, { workspaceId, workspace, role });
  }

  async #authenticateToken(token: string): Promise<Principal> {
    const claims = await this.#verifyToken(token);
    if (claims === undefined || claims.expiresAt <= Date.now()) throw rejected();
    const { subjectId, scopes: granted, tokenId: credentialId } = claims;
    if (claims.kind === "user") {
      const user = await this.#store.findUser(subjectId);
      if (user === undefined || user.disabled_at !== null) throw rejected();
      const principalName = user.name;
      return { principalId: subjectId, kind: "user", principalName, credentialId, granted, home: undefined };
    }
    const account = await this.#store.findServiceAccount(subjectId);
    if (account === undefined) throw rejected();
    const { name: principalName, workspace_id: workspaceId, workspace, role } = account;
    const home = { workspaceId, workspace, role };
    return { principalId: subjectId, kind: "service_account", principalName, credentialId, granted, home };
  }

  async #findOnly({ principalId }: Principal): Promise<Membership> {
    const [first, second] = await this.#store.findSomeMemberships(principalId);
    if (first === undefined) throw new AppError("forbidden", "The credential's owner belongs to no workspace.");
    if (second !== undefined) {
      throw new AppError(
        "invalid_request",
        "Name a workspace: the credential is good for several (X-Blaxel-Workspace).",
      );
    }
    return { workspaceId: first.workspace_id, workspace: first.workspace, role: first.role };
  }
}

function act({ principalId, kind, principalName, credentialId, granted }: Principal, membership: Membership): Caller {
  const { workspaceId, workspace, role } = membership;
  const scopes = effectiveScopes(granted, role);
  return { principalId, kind, principalName, credentialId, workspaceId, workspace, role, scopes };
}

function principalOfKey(row: Readonly<KeyRow>): Principal {
  const { key_id: credentialId, workspace_id: workspaceId, workspace, role } = row;
  const granted = row.scopes === null ? everything : (JSON.parse(row.scopes) as string[]);
  const home =
    workspaceId === null || workspace === null || role === null ? undefined : { workspaceId, workspace, role };
  if (row.user_id !== null) {
    return { principalId: row.user_id, kind: "user", principalName: row.user_name!, credentialId, granted, home };
  }
  if (row.service_account_id === null || home === undefined) throw rejected();
  const principalName = row.service_account_name!;
  return { principalId: row.service_account_id, kind: "service_account", principalName, credentialId, granted, home };
}

/** Whether it has the form of a JWT, which no API key has. */
function isToken(credential: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]+$/.test(credential);
}

/** Anything else is not even looked up. */
function isWorkspaceName(text: string): boolean {
  return /^[a-z0-9-]{1,63}$/.test(text);
}

function rejected(): AppError {
  return new AppError("unauthenticated", "The credential is unknown, expired or revoked.");
}
