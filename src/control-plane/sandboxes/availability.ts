// Parts of the resource whose behaviour does not exist yet. Asking for one is refused: a sandbox must not seem to expire, or to be
// cut off from the network, when it is not. Values that ask for nothing are accepted.
import type { SandboxInput } from "../../contract/sandbox.ts";
import { AppError } from "../../core/errors.ts";

type ProxySettings = {
  allowedDomains?: readonly string[];
  forbiddenDomains?: readonly string[];
  bypass?: readonly string[];
  routing?: readonly object[];
};

type Check = { field: string; asksFor: (input: SandboxInput) => boolean };

const unavailable: readonly Check[] = [
  { field: "spec.runtime.ttl", asksFor: ({ spec }) => Boolean(spec.runtime?.ttl) },
  { field: "spec.runtime.expires", asksFor: ({ spec }) => Boolean(spec.runtime?.expires) },
  {
    field: "spec.runtime.terminationGracePeriodSeconds above 0",
    asksFor: ({ spec }) => (spec.runtime?.terminationGracePeriodSeconds ?? 0) > 0,
  },
  {
    field: "spec.runtime.extraArgs with an enabled option",
    asksFor: ({ spec }) => Object.values(spec.runtime?.extraArgs ?? {}).includes("enabled"),
  },
  {
    field: "spec.lifecycle.expirationPolicies",
    asksFor: ({ spec }) => (spec.lifecycle?.expirationPolicies?.length ?? 0) > 0,
  },
  { field: "spec.volumes", asksFor: ({ spec }) => (spec.volumes?.length ?? 0) > 0 },
  { field: "spec.vpc other than `default`", asksFor: ({ spec }) => (spec.vpc ?? "default") !== "default" },
  {
    field: "spec.network.subnet other than `default`",
    asksFor: ({ spec }) => (spec.network?.subnet ?? "default") !== "default",
  },
  { field: "spec.network.proxy", asksFor: ({ spec }) => asksForProxy(spec.network?.proxy) },
  {
    field: "spec.network.firewall.rulesets other than `default`",
    asksFor: ({ spec }) => spec.network?.firewall?.rulesets?.some((ruleset) => ruleset !== "default") ?? false,
  },
  {
    field: "spec.network.egress",
    asksFor: ({ spec: { network: { egress } = {} } }) =>
      egress?.gateway !== undefined || egress?.mode !== undefined || (egress?.policies?.length ?? 0) > 0,
  },
  // An empty list is an allowlist that allows nothing: it asks for something, too.
  { field: "spec.network.allowedDomains", asksFor: ({ spec }) => spec.network?.allowedDomains !== undefined },
  {
    field: "spec.network.forbiddenDomains",
    asksFor: ({ spec }) => (spec.network?.forbiddenDomains?.length ?? 0) > 0,
  },
];

/** An empty list of allowed domains allows nothing; the other lists ask for nothing when they are empty. */
export function asksForProxy(proxy: ProxySettings | undefined): boolean {
  if (proxy === undefined) return false;
  const { allowedDomains, forbiddenDomains = [], bypass = [], routing = [] } = proxy;
  return allowedDomains !== undefined || [forbiddenDomains, bypass, routing].some((list) => list.length > 0);
}

export function requireAvailable(input: SandboxInput): void {
  const asked = unavailable.filter(({ asksFor }) => asksFor(input)).map(({ field }) => field);
  if (asked.length === 0) return;
  throw new AppError("invalid_request", `Not available in this version: ${asked.join(", ")}.`, {
    details: { code: "FEATURE_NOT_AVAILABLE", fields: asked },
  });
}
