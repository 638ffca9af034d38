// The options that say what a new sandbox is to be, shared by `sandbox create` and `run`.
import type { Command } from "commander";
import type { SandboxInput } from "../contract/sandbox.ts";
import { usageFailure } from "./failure.ts";
import { collect, parseVariables } from "./option-values.ts";

export type ShapeOptions = { image?: string; memory?: string; region?: string; env?: string[]; secretEnv?: string[] };

export function addShapeOptions(command: Command): Command {
  return command
    .option("--image <image>", "platform image or OCI reference (default: the platform's base image)")
    .option("--memory <mb>", "memory in MB; CPU follows: 2048 MB are one core")
    .option("--region <region>", "region to create it in")
    .option("--env <name=value>", "environment variable; NAME alone takes your own value; may be repeated", collect)
    .option("--secret-env <name>", "like --env, and never shown again in answers; prefer NAME alone", collect);
}

export function toSandboxInput(
  { image, memory, region, env, secretEnv }: ShapeOptions,
  environment: Readonly<Record<string, string | undefined>>,
): SandboxInput {
  const open = parseVariables("--env", env, environment);
  const secret = parseVariables("--secret-env", secretEnv, environment);
  const envs = [
    ...Object.entries(open).map(([name, value]) => ({ name, value })),
    ...Object.entries(secret).map(([name, value]) => ({ name, value, secret: true })),
  ];
  return {
    metadata: {},
    spec: {
      ...(region === undefined ? {} : { region }),
      runtime: {
        ...(image === undefined ? {} : { image }),
        ...(memory === undefined ? {} : { memory: parseMemory(memory) }),
        ...(envs.length === 0 ? {} : { envs }),
      },
    },
  };
}

function parseMemory(text: string): number {
  const memoryMb = Number(text);
  if (/^\d{1,15}$/.test(text) && memoryMb > 0) return memoryMb;
  throw usageFailure(`--memory takes a whole number of MB such as 2048, not ${text}.`);
}
