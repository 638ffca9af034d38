// Rules for quotas: what the installation gives every workspace, unless the operator gave this one something else.
import type { QuotaEntry } from "../../contract/operator/quotas.ts";
import { type Quota, type QuotaType, quotaTypes } from "../../contract/quota.ts";
import { AppError } from "../../core/errors.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { QuotaStore } from "./store.ts";

export type QuotaLimits = { sandboxes: number; memoryMb: number; retentionMs: number };

export type Quotas = ReturnType<typeof createQuotas>;

export type QuotaDefaults = Pick<ControlPlaneConfig, "sandboxesMax" | "workspaceMemoryMaxMb" | "retentionMaxMs">;

export type QuotasOptions = {
  store: QuotaStore;
  config: QuotaDefaults;
  findWorkspaceId: (workspace: string) => Promise<string | undefined>;
};

export function createQuotas({ store, config, findWorkspaceId }: QuotasOptions) {
  const defaults: Record<QuotaType, number> = {
    sandboxes: config.sandboxesMax,
    memory: config.workspaceMemoryMaxMb,
    terminatedRetention: Math.floor(config.retentionMaxMs / 1_000),
  };
  const listEntries = async (workspaceId: string): Promise<QuotaEntry[]> => {
    const overrides = await store.findOverrides(workspaceId);
    return quotaTypes.map((resourceType) => {
      const value = overrides[resourceType];
      if (value === undefined) return { resourceType, value: defaults[resourceType], source: "installation" };
      return { resourceType, value, source: "operator" };
    });
  };
  const enter = async (workspace: string): Promise<string> => {
    const workspaceId = await findWorkspaceId(workspace);
    if (workspaceId === undefined) throw new AppError("not_found", `There is no workspace ${workspace}.`);
    return workspaceId;
  };
  return {
    async limitsOf(workspaceId: string): Promise<QuotaLimits> {
      const overrides = await store.findOverrides(workspaceId);
      const { sandboxes, memory, terminatedRetention } = { ...defaults, ...overrides };
      return { sandboxes, memoryMb: memory, retentionMs: terminatedRetention * 1_000 };
    },

    async list(workspaceId: string): Promise<Quota[]> {
      return (await listEntries(workspaceId)).map(({ resourceType, value }) => ({ resourceType, value }));
    },

    /** For the operator, as the two that follow. */
    listSettings: async (workspace: string): Promise<QuotaEntry[]> => listEntries(await enter(workspace)),

    /** What the workspace has already is left to it. */
    async set(workspace: string, resourceType: QuotaType, value: number): Promise<QuotaEntry> {
      await store.set(await enter(workspace), resourceType, value);
      return { resourceType, value, source: "operator" };
    },

    async reset(workspace: string, resourceType: QuotaType): Promise<QuotaEntry> {
      await store.remove(await enter(workspace), resourceType);
      return { resourceType, value: defaults[resourceType], source: "installation" };
    },
  };
}
