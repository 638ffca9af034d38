// What the edge asks, answered from the store without waiting.
import type { Directory } from "../contract/host.ts";
import { roleScopes } from "./auth/caller.ts";
import type { Authentication } from "./auth/service.ts";
import type { AuthStore } from "./auth/store.ts";
import type { SandboxStore } from "./sandboxes/store.ts";

export type DirectoryOptions = { authentication: Authentication; authStore: AuthStore; sandboxes: SandboxStore };

export function createDirectory({ authentication, authStore, sandboxes }: DirectoryOptions): Directory {
  return {
    authenticate(credential) {
      const { principalId, role, workspace } = authentication.authenticate(credential);
      return { id: principalId, kind: "user", role, workspace, scopes: roleScopes[role] };
    },
    findRoute: (workspace, sandboxName) => sandboxes.findRoute(workspace, sandboxName),
    findWorkspaceById: (workspaceId) => authStore.findWorkspaceName(workspaceId),
  };
}
