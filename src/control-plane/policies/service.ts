// Policies: which ones can be written, and what they forbid. Every policy of a workspace has to allow the place of a new sandbox.
import type { Policy, PolicyInput, PolicySpec, PolicyUsages } from "../../contract/policy.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { Caller } from "../auth/caller.ts";
import type { LocationConfig } from "../locations/config.ts";
import type { PolicyRecord, PolicyStore } from "./store.ts";

export const policiesMax = 100;

export type PolicyServiceOptions = { store: PolicyStore; location: LocationConfig };

export type PolicyService = ReturnType<typeof createPolicyService>;

export function createPolicyService({ store, location }: PolicyServiceOptions) {
  const find = async ({ workspaceId }: Caller, name: string): Promise<PolicyRecord> => {
    const record = await store.find(workspaceId, name);
    if (record === undefined) throw notFound();
    return record;
  };
  const present = async (record: PolicyRecord, caller: Caller): Promise<Policy> =>
    presentPolicy(record, caller, await store.countSandboxes(caller.workspaceId));

  return {
    async create(caller: Caller, input: PolicyInput): Promise<Policy> {
      const record = newRecord(caller, input);
      const outcome = await store.insert(record, policiesMax);
      if (outcome === "taken") throw new AppError("already_exists", `A policy with the name ${record.name} exists.`);
      if (outcome === "full") throw new AppError("invalid_request", `A workspace has at most ${policiesMax} policies.`);
      return present(record, caller);
    },

    async get(caller: Caller, name: string): Promise<Policy> {
      return present(await find(caller, name), caller);
    },

    async listAll(caller: Caller): Promise<{ record: PolicyRecord; policy: Policy }[]> {
      const records = await store.list(caller.workspaceId);
      const sandboxes = await store.countSandboxes(caller.workspaceId);
      return records.map((record) => ({ record, policy: presentPolicy(record, caller, sandboxes) }));
    },

    async update(caller: Caller, name: string, input: PolicyInput): Promise<Policy> {
      const drafted = draft(input);
      if (drafted.name !== name) throw new AppError("invalid_request", "metadata.name must be the policy's name");
      const existing = await find(caller, name);
      const updatedAt = new Date().toISOString();
      const record = { ...existing, ...drafted, updatedAt, updatedBy: caller.principalName };
      if (!(await store.replace(record))) throw notFound();
      return present(record, caller);
    },

    async delete(caller: Caller, name: string): Promise<Policy> {
      const record = await store.remove(caller.workspaceId, name);
      if (record === undefined) throw notFound();
      return present(record, caller);
    },

    async usages(caller: Caller, name: string): Promise<PolicyUsages> {
      await find(caller, name);
      const names = await store.sandboxNames(caller.workspaceId);
      return { agents: [], functions: [], jobs: [], models: [], sandboxes: names.map((name) => ({ name })) };
    },

    /** Throws unless every policy of the workspace allows sandboxes where this installation is. */
    async requireAllowed(workspaceId: string): Promise<void> {
      for (const { name, spec } of await store.listSpecs(workspaceId)) {
        if (spec.locations.some((allowed) => isHere(allowed, location))) continue;
        throw new AppError("forbidden", `The policy ${name} allows no sandboxes in ${location.region}.`, {
          details: { code: "POLICY_VIOLATION", policy: name },
        });
      }
    },
  };
}

function newRecord({ workspaceId, principalName }: Caller, input: PolicyInput): PolicyRecord {
  const now = new Date().toISOString();
  const by = { createdAt: now, updatedAt: now, createdBy: principalName, updatedBy: principalName };
  return { ...draft(input), id: randomToken(16), workspaceId, ...by };
}

function isHere(
  { type, name }: PolicySpec["locations"][number],
  { region, country, continent }: LocationConfig,
): boolean {
  const here = { location: region, country, continent }[type];
  return here === name.toLowerCase();
}

/** What is stored of what a caller sent. A policy without effect is refused: whoever wrote it would rely on it. */
function draft({
  metadata,
  spec,
}: PolicyInput): Pick<PolicyRecord, "name" | "displayName" | "externalId" | "labels" | "spec"> {
  const { type, resourceTypes = [], locations = [] } = spec;
  if (type !== "location") reject("spec.type", "must be location: there are no other policies on this platform");
  for (const member of ["flavors", "maxTokens", "sandbox"] as const) {
    if (spec[member] !== undefined && !isEmpty(spec[member]))
      reject(`spec.${member}`, "does not belong to a policy for locations");
  }
  if (resourceTypes.length === 0) reject("spec.resourceTypes", "must name what the policy is for: sandbox");
  const other = resourceTypes.find((resourceType) => resourceType !== "sandbox");
  if (other !== undefined) reject("spec.resourceTypes", `must be [sandbox]: there is no ${other} on this platform`);
  if (locations.length === 0) reject("spec.locations", "must name at least one location");
  return {
    name: metadata.name,
    displayName: metadata.displayName,
    externalId: metadata.externalId,
    labels: metadata.labels,
    spec: { type, resourceTypes: ["sandbox"], locations },
  };
}

function isEmpty(value: unknown): boolean {
  return value === false || (Array.isArray(value) && value.length === 0);
}

function presentPolicy(record: PolicyRecord, { workspace }: Caller, sandboxes: number): Policy {
  const { name, displayName, externalId, labels, createdAt, updatedAt, createdBy, updatedBy } = record;
  return {
    metadata: { name, displayName, externalId, labels, createdAt, updatedAt, createdBy, updatedBy, workspace },
    spec: record.spec,
    usage: { agents: 0, functions: 0, jobs: 0, models: 0, sandboxes },
  };
}

function notFound(): AppError {
  return new AppError("not_found", "There is no such policy.");
}

function reject(field: string, rule: string): never {
  throw new AppError("invalid_request", `${field} ${rule}`);
}
