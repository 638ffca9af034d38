// From what a caller asks to what will be made: rules that a schema cannot state, and the defaults.
import type { SandboxInput } from "../../contract/sandbox.ts";
import {
  defaultImage,
  type Env,
  envMaxBytes,
  envsMaxBytes,
  type Port,
  reservedPorts,
  type SandboxSpec,
  secretMask,
} from "../../contract/sandbox-spec.ts";
import { parseDurationMs } from "../../core/duration.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { requireAvailable } from "./availability.ts";
import { envBytes } from "./environment.ts";
import { requireLifetime } from "./lifetime-rules.ts";
import { requireNetwork, requireResourceName } from "./network-rules.ts";
import { refuse } from "./refuse.ts";
import { requireVolumes } from "./volume-rules.ts";

const retentionDefaultMs = 300_000;

export type Draft = {
  /** Undefined when the platform is to make one up. */
  name: string | undefined;
  displayName: string | undefined;
  externalId: string | undefined;
  labels: Record<string, string> | undefined;
  image: string;
  memoryMb: number;
  /** Without the environment. */
  spec: SandboxSpec;
  envs: Env[];
  retentionMs: number;
};

/** What this installation, and the workspace's quotas, allow. */
export type DraftLimits = Pick<ControlPlaneConfig, "region" | "memoryDefaultMb" | "memoryMaxMb" | "retentionMaxMs">;

export function draftSandbox(input: SandboxInput, config: DraftLimits): Draft {
  const { metadata, spec } = input;
  const { envs = [], ports, ...runtime } = spec.runtime ?? {};
  const { network, ...rest } = spec;
  requireEnvs(envs);
  requirePorts(ports ?? []);
  const memoryMb = runtime.memory ?? config.memoryDefaultMb;
  if (memoryMb > config.memoryMaxMb) refuse("spec.runtime.memory", `must be at most ${config.memoryMaxMb}`);
  const region = spec.region ?? config.region;
  // `auto` leaves the choice to the platform, as leaving it out does.
  if (region !== config.region && region !== "auto") refuse("spec.region", `must be ${config.region}`);
  if (spec.vpc !== undefined) requireResourceName("spec.vpc", spec.vpc);
  requireLifetime(spec, Date.now());
  requireNetwork(network ?? {});
  requireVolumes(spec.volumes ?? []);
  // Last: what is wrong is said before what does not exist yet.
  requireAvailable(input);
  const image = runtime.image ?? defaultImage;
  const { name, displayName, externalId, labels } = metadata;
  return {
    name,
    displayName,
    externalId,
    labels,
    image,
    memoryMb,
    envs: envs.map(({ name, value, secret, valueFrom }) =>
      valueFrom === undefined ? { name, value: value ?? "", ...(secret && { secret }) } : { name, valueFrom },
    ),
    spec: {
      ...rest,
      ...(network !== undefined && Object.keys(network).length > 0 && { network: network as SandboxSpec["network"] }),
      enabled: spec.enabled ?? true,
      region: config.region,
      runtime: {
        ...runtime,
        image,
        memory: memoryMb,
        ...(ports && { ports: ports.map((port) => ({ ...port, protocol: port.protocol ?? "HTTP" })) }),
      },
    },
    retentionMs: readRetention(spec.lifecycle?.terminatedRetention, config.retentionMaxMs),
  };
}

function requirePorts(ports: readonly Port[]): void {
  const seen = new Set<number>();
  for (const [index, { target }] of ports.entries()) {
    const field = `spec.runtime.ports[${index}].target`;
    if (reservedPorts.includes(target)) refuse(field, `must not be ${target}: the platform uses this port`);
    if (seen.has(target)) refuse(field, `must differ from the other ports: ${target} appears twice`);
    seen.add(target);
  }
}

/** Messages name variables and never show values. */
function requireEnvs(envs: readonly Env[]): void {
  const seen = new Set<string>();
  let totalBytes = 0;
  for (const [index, { name, value = "", secret, valueFrom }] of envs.entries()) {
    const field = `spec.runtime.envs[${index}]`;
    if (seen.has(name)) refuse(`${field}.name`, `must differ from the other variables: ${name} appears twice`);
    seen.add(name);
    if (valueFrom !== undefined && value !== "") refuse(`${field}.value`, "must be absent beside valueFrom");
    if (secret && value === secretMask)
      refuse(`${field}.value`, "must be the value itself, not the mask shown in answers");
    const bytes = envBytes(name, value);
    if (bytes > envMaxBytes) refuse(field, `must have at most ${envMaxBytes} bytes`);
    totalBytes += bytes;
  }
  if (totalBytes > envsMaxBytes) refuse("spec.runtime.envs", `must have at most ${envsMaxBytes} bytes in total`);
}

/** Longer retention than the installation allows is capped, as the specification says. */
function readRetention(text: string | undefined, maxMs: number): number {
  if (text === undefined) return Math.min(retentionDefaultMs, maxMs);
  return Math.min(parseDurationMs(text) ?? maxMs, maxMs);
}
