// What the edge asks, answered from the store.
import type { Directory } from "../contract/host.ts";
import { AppError } from "../core/errors.ts";
import type { Caller, Principal } from "./auth/caller.ts";
import { isSecret } from "./auth/secrets.ts";
import type { Authentication } from "./auth/service.ts";
import type { AuthStore } from "./auth/store.ts";
import type { PreviewDirectory } from "./previews/directory.ts";
import type { SandboxStore } from "./sandboxes/store.ts";

export type DirectoryOptions = {
  authentication: Authentication;
  authStore: AuthStore;
  sandboxes: SandboxStore;
  previews: PreviewDirectory;
  /** Where the platform is reached: the issuer of its access tokens is below it. */
  origin: string;
};

export function createDirectory({
  authentication,
  authStore,
  sandboxes,
  previews,
  origin,
}: DirectoryOptions): Directory {
  /** Whether a workspace exists is not for everyone to know. */
  const enter = async (principal: Principal, workspace: string | undefined): Promise<Caller> => {
    try {
      if (workspace !== undefined) return await authentication.enter(principal, workspace);
    } catch (error) {
      if (!(error instanceof AppError && (error.code === "not_found" || error.code === "forbidden"))) throw error;
    }
    throw new AppError("forbidden", "The credential does not give access to this workspace.");
  };
  return {
    async authorize(credential, workspace) {
      const principal = await authentication.authenticate(credential);
      const { principalId: id, kind, role, scopes, workspace: entered } = await enter(principal, workspace);
      return { id, kind, role, scopes, workspace: entered };
    },
    findRoute: (workspace, sandboxName) => sandboxes.findRoute(workspace, sandboxName),
    findWorkspaceById: (workspaceId) => authStore.findWorkspaceName(workspaceId),
    ...previews,
    isPlatformCredential: (text) =>
      isSecret("apiKey", text) ||
      isSecret("clientSecret", text) ||
      isSecret("previewToken", text) ||
      isIssuedBy(text, `${origin}/v0`),
  };
}

/** Whether it names the platform as its issuer: its signature makes no difference. */
function isIssuedBy(text: string, issuer: string): boolean {
  const claims = /^[\w-]+\.([\w-]+)\.[\w-]*$/.exec(text)?.[1];
  if (claims === undefined) return false;
  try {
    return (JSON.parse(Buffer.from(claims, "base64url").toString()) as { iss?: unknown } | null)?.iss === issuer;
  } catch {
    return false;
  }
}
