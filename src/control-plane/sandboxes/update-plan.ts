// From what a sandbox is and what a caller sends to what it will be, and whether that takes a new instance.
import type { SandboxInput } from "../../contract/sandbox.ts";
import { type Env, secretMask } from "../../contract/sandbox-spec.ts";
import { asksForProxy } from "./availability.ts";
import { type Draft, type DraftLimits, draftSandbox } from "./draft.ts";
import { isSameEnvironment } from "./environment.ts";
import type { SandboxRecord } from "./record.ts";
import { refuse } from "./refuse.ts";

export type UpdatePlan = {
  draft: Draft;
  /** Files and processes go: what differs is fixed when an instance is made. */
  rebuild: boolean;
};

/**
 * The object replaces what is there. What would cost the sandbox its files is changed only by what is sent, never by leaving something
 * out: image, memory and environment stay, and so does the external id.
 */
export function planUpdate(
  record: SandboxRecord,
  present: readonly Env[],
  input: SandboxInput,
  limits: DraftLimits,
): UpdatePlan {
  const { name = record.name, externalId = record.externalId } = input.metadata;
  if (name !== record.name) refuse("metadata.name", `must be ${record.name}: the name of a sandbox does not change`);
  requireImmutable(record, input);
  const { image, memory = 0 } = record.spec.runtime ?? {};
  // What the sandbox has is not refused because the installation allows less, or is called something else, by now.
  const { region = limits.region } = record.spec;
  const memoryMaxMb = Math.max(limits.memoryMaxMb, memory);
  const given = input.spec.runtime?.envs;
  const envs = given === undefined ? [...present] : unmask(given, present);
  const draft = draftSandbox(
    {
      metadata: { ...input.metadata, name, ...(externalId !== undefined && { externalId }) },
      spec: {
        ...input.spec,
        runtime: {
          ...(image !== undefined && { image }),
          ...(memory > 0 && { memory }),
          ...input.spec.runtime,
          envs,
        },
      },
    },
    { ...limits, region, memoryMaxMb },
  );
  const rebuild = draft.image !== image || draft.memoryMb !== memory || !isSameEnvironment(draft.envs, present);
  return { draft, rebuild };
}

function requireImmutable({ spec }: SandboxRecord, input: SandboxInput): void {
  const wanted = input.spec.runtime?.extraArgs ?? {};
  const present = spec.runtime?.extraArgs ?? {};
  for (const option of ["iptables", "nfs", "tun"] as const) {
    const isOn = wanted[option] === "enabled";
    if (wanted[option] !== undefined && isOn !== (present[option] === "enabled")) {
      refuse(`spec.runtime.extraArgs.${option}`, "must stay as the sandbox was created: it selects its kernel");
    }
  }
  if (asksForProxy(input.spec.network?.proxy) && !asksForProxy(spec.network?.proxy)) {
    refuse("spec.network.proxy", "must stay without effect: a proxy cannot be switched on after the creation");
  }
}

/** Secret values come back as the mask they were shown as, and are then unchanged. */
function unmask(given: readonly Env[], present: readonly Env[]): Env[] {
  const known = new Map(present.map((env) => [env.name, env]));
  return given.map((env, index) => {
    const before = known.get(env.name);
    if (env.value !== secretMask || before?.secret !== true || before.value === undefined) return env;
    if (env.secret !== true) {
      refuse(`spec.runtime.envs[${index}].secret`, "must stay true while the value is the mask shown in answers");
    }
    return { ...env, value: before.value };
  });
}
