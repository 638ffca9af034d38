// The environment of a sandbox at rest and on its way to the host: values are stored sealed, references are stored as references.
import type { Env, SecretKeyRef } from "../../contract/sandbox-spec.ts";
import { envMaxBytes, envsMaxBytes } from "../../contract/sandbox-spec.ts";
import { AppError } from "../../core/errors.ts";
import { FirstTime } from "../../core/first-time.ts";
import type { Logger } from "../../core/log.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Caller } from "../auth/caller.ts";
import { covers } from "../auth/scopes.ts";
import { refuse } from "./refuse.ts";

/** The value of a connection's secret, or undefined. */
export type ResolveSecret = (workspaceId: string, connection: string, key: string) => Promise<string | undefined>;

export type Environments = ReturnType<typeof createEnvironments>;

type Sealed = { id: string; sealedEnvs: string | undefined };

type EnvironmentsOptions = { sealKey: SealKey; resolveSecret: ResolveSecret; log: Logger };

export function createEnvironments({ sealKey, resolveSecret, log }: EnvironmentsOptions) {
  const unreadable = new FirstTime();
  const open = ({ id, sealedEnvs }: Sealed): Env[] =>
    sealedEnvs === undefined ? [] : JSON.parse(sealKey.open(sealedEnvs, envsOf(id)));
  return {
    open,

    /** For answers: a sandbox whose environment cannot be opened is shown without one, and hides no other. */
    show(sealed: Sealed): Env[] {
      try {
        return open(sealed);
      } catch (error) {
        const record = envsOf(sealed.id);
        if (unreadable.meets(record)) log.error({ record, err: error }, "a sealed text cannot be opened");
        return [];
      }
    },

    seal(envs: readonly Env[], sandboxId: string): string | undefined {
      return envs.length === 0 ? undefined : sealKey.seal(JSON.stringify(envs), envsOf(sandboxId));
    },

    /** What the host is to set: references replaced by what they refer to now. Messages name variables and never show values. */
    async resolve(envs: readonly Env[], workspaceId: string): Promise<Record<string, string>> {
      const resolved: [string, string][] = [];
      let totalBytes = 0;
      for (const [index, { name, value = "", valueFrom }] of envs.entries()) {
        const text = valueFrom === undefined ? value : await find(valueFrom.secretKeyRef, workspaceId, index);
        const bytes = envBytes(name, text);
        if (bytes > envMaxBytes) refuseEnv(index, `must have at most ${envMaxBytes} bytes`);
        totalBytes += bytes;
        resolved.push([name, text]);
      }
      if (totalBytes > envsMaxBytes) {
        refuse("spec.runtime.envs", `must have at most ${envsMaxBytes} bytes in total`);
      }
      return Object.fromEntries(resolved);
    },
  };

  async function find({ name, key }: SecretKeyRef, workspaceId: string, index: number): Promise<string> {
    const value = await resolveSecret(workspaceId, name, key);
    const field = "valueFrom.secretKeyRef";
    if (value === undefined) {
      refuseEnv(index, `must refer to a secret of a connection: ${name} has no ${key}, or does not exist`, field);
    }
    if (value.includes("\0")) refuseEnv(index, "must refer to a secret without NUL", field);
    return value;
  }
}

function refuseEnv(index: number, rule: string, member?: string): never {
  refuse(`spec.runtime.envs[${index}]${member === undefined ? "" : `.${member}`}`, rule);
}

/** What the kernel counts: `NAME=value` and its end. */
export function envBytes(name: string, value: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
}

/** What sealed environments are bound to. */
export function envsOf(sandboxId: string): string {
  return `envs:${sandboxId}`;
}

/** Names of the connections that an environment refers to, each once. */
export function connectionsOf(envs: readonly Env[]): string[] {
  return [...new Set(envs.flatMap(({ valueFrom }) => (valueFrom === undefined ? [] : [valueFrom.secretKeyRef.name])))];
}

/**
 * Whoever runs a sandbox can read its environment, so a new reference needs what reading the connection needs. One that the sandbox
 * has already reveals nothing more.
 */
export function requireReferences({ scopes }: Caller, envs: readonly Env[], present: readonly Env[]): void {
  const known = new Set(present.map(referenceOf));
  const wanted = envs.map(referenceOf).filter((reference) => reference !== undefined && !known.has(reference));
  if (wanted.length === 0 || covers(scopes, "integrations:get")) return;
  throw new AppError(
    "forbidden",
    "Environment variables with valueFrom need the scope integrations:get, which the credential does not have.",
  );
}

function referenceOf({ valueFrom }: Env): string | undefined {
  return valueFrom === undefined
    ? undefined
    : JSON.stringify([valueFrom.secretKeyRef.name, valueFrom.secretKeyRef.key]);
}

/** Whether a program started in one would see what it sees in the other, references being equal when they refer to the same. */
export function isSameEnvironment(left: readonly Env[], right: readonly Env[]): boolean {
  return left.length === right.length && describe(left) === describe(right);
}

function describe(envs: readonly Env[]): string {
  const lines = envs.map((env) => JSON.stringify([env.name, env.value ?? "", referenceOf(env) ?? null]));
  return lines.sort().join("\n");
}
