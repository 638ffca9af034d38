// Which features a workspace has: what the operator has set wins over the features file, and there the workspace over the default.
import type { Feature } from "../../contract/feature.ts";
import type { FeatureEntries, FeatureEntry, FeatureSetting } from "../../contract/operator/features.ts";
import { AppError } from "../../core/errors.ts";
import type { Caller } from "../auth/caller.ts";
import { type FeaturesFile, featuresMax, requirePayloadSize } from "./file.ts";
import type { FeatureStore } from "./store.ts";

export type FeatureServiceOptions = {
  store: FeatureStore;
  file: FeaturesFile;
  findWorkspaceId: (workspace: string) => Promise<string | undefined>;
};

type Workspace = { workspaceId: string; workspace: string };

export type FeatureService = ReturnType<typeof createFeatureService>;

export function createFeatureService({ store, file, findWorkspaceId }: FeatureServiceOptions) {
  const fromFile = (workspace: string, name: string): FeatureEntry | undefined => {
    const own = file.ofWorkspace(workspace).get(name);
    if (own !== undefined) return { name, ...own, source: "file" };
    const byDefault = file.defaults().get(name);
    return byDefault && { name, ...byDefault, source: "file default" };
  };
  const find = async ({ workspaceId, workspace }: Workspace, name: string): Promise<FeatureEntry | undefined> => {
    const stored = await store.find(workspaceId, name);
    return stored === undefined ? fromFile(workspace, name) : { name, ...stored, source: "operator" };
  };
  const listAll = async ({ workspaceId, workspace }: Workspace): Promise<FeatureEntry[]> => {
    const entries = new Map<string, FeatureEntry>();
    for (const [name, setting] of file.defaults()) entries.set(name, { name, ...setting, source: "file default" });
    for (const [name, setting] of file.ofWorkspace(workspace)) entries.set(name, { name, ...setting, source: "file" });
    for (const { name, setting } of await store.list(workspaceId)) {
      entries.set(name, { name, ...setting, source: "operator" });
    }
    return [...entries.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
  };
  const enter = async (workspace: string): Promise<Workspace> => {
    const workspaceId = await findWorkspaceId(workspace);
    if (workspaceId === undefined) throw new AppError("not_found", `There is no workspace ${workspace}.`);
    return { workspaceId, workspace };
  };

  return {
    /** Names of what is on. */
    async listEnabled(caller: Caller): Promise<string[]> {
      return (await listAll(caller)).filter(({ enabled }) => enabled).map(({ name }) => name);
    },

    /** One that is off is answered like one that does not exist, so that callers cannot find out what there is. */
    async evaluate(caller: Caller, name: string): Promise<Feature> {
      const entry = await find(caller, name);
      if (!entry?.enabled) throw new AppError("not_found", "There is no such feature.");
      const { variant = "", payload = {} } = entry;
      return { enabled: true, evaluatedAt: new Date().toISOString(), featureKey: name, payload, variant };
    },

    async listSettings(workspace: string): Promise<FeatureEntries> {
      const features = await listAll(await enter(workspace));
      const { path } = file;
      if (path === undefined) return { features };
      const problem = file.problem();
      return { features, file: { path, ...(problem !== undefined && { problem }) } };
    },

    async set(workspace: string, name: string, setting: FeatureSetting): Promise<FeatureEntry> {
      requirePayloadSize(setting, name);
      const { workspaceId } = await enter(workspace);
      if (!(await store.set(workspaceId, name, setting, featuresMax))) {
        throw new AppError("invalid_request", `A workspace has at most ${featuresMax} features.`);
      }
      return { name, ...setting, source: "operator" };
    },

    /** What holds from now on; `enabled: false` when nothing is known of the feature any more. */
    async reset(workspace: string, name: string): Promise<FeatureEntry> {
      const entered = await enter(workspace);
      const removed = await store.remove(entered.workspaceId, name);
      if (removed === undefined) {
        throw new AppError("not_found", `The operator has set nothing for the feature ${name} in ${workspace}.`);
      }
      return fromFile(workspace, name) ?? { name, enabled: false, source: "file default" };
    },
  };
}
