// What a host can be told, read from a record of environment variables and flags; defaults and cross-checks live here.
import { join } from "node:path";
import { parseDurationMs } from "../core/duration.ts";
import { AppError } from "../core/errors.ts";

export type HostConfig = {
  dataDir: string;
  imageDir: string;
  /** Idle time without a request or a `keepAlive` process after which an instance is frozen. */
  idleTimeoutMs: number;
  /** Ready-made instances kept per recently used image. */
  warmInstances: number;
  /** Images that get warm instances from the start. */
  warmImages: string[];
  ociRuntime: string;
  guestBinary: string;
  cgroupParent: string;
  insecureRegistries: string[];
  imageMaxBytes: number;
  networkCidr: string;
  /** Processes and threads one sandbox may have. */
  processesMax: number;
};

export const defaultDataDir = "/var/lib/catnap";

export function readHostConfig(env: Record<string, string | undefined>, projectRoot: string): HostConfig {
  const dataDir = env.CATNAP_DATA_DIR ?? defaultDataDir;
  return {
    dataDir,
    imageDir: env.CATNAP_IMAGE_DIR ?? join(dataDir, "images"),
    idleTimeoutMs: durationSetting(env, "CATNAP_IDLE_TIMEOUT", "15s"),
    warmInstances: integerSetting(env, "CATNAP_WARM_INSTANCES", 2, { min: 0, max: 100 }),
    warmImages: listSetting(env, "CATNAP_WARM_IMAGES", "blaxel/base-image:latest"),
    ociRuntime: env.CATNAP_OCI_RUNTIME ?? "runc",
    guestBinary: env.CATNAP_GUEST_BINARY ?? join(projectRoot, "guest/build/catnap-init"),
    cgroupParent: env.CATNAP_CGROUP_PARENT ?? "catnap",
    insecureRegistries: listSetting(env, "CATNAP_INSECURE_REGISTRIES", ""),
    imageMaxBytes: integerSetting(env, "CATNAP_IMAGE_MAX_MB", 10_240, { min: 1, max: 1_048_576 }) * 1024 * 1024,
    networkCidr: env.CATNAP_NETWORK_CIDR ?? "10.201.0.0/16",
    processesMax: integerSetting(env, "CATNAP_PROCESSES_MAX", 4_096, { min: 16, max: 1_000_000 }),
  };
}

function durationSetting(env: Record<string, string | undefined>, name: string, fallback: string): number {
  const durationMs = parseDurationMs(env[name] ?? fallback);
  if (durationMs !== undefined && durationMs > 0) return durationMs;
  throw new AppError("invalid_request", `${name} must be a duration such as 15s, 2m or 1h, not ${env[name]}.`);
}

function integerSetting(
  env: Record<string, string | undefined>,
  name: string,
  fallback: number,
  { min, max }: { min: number; max: number },
): number {
  const text = env[name];
  if (text === undefined) return fallback;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new AppError("invalid_request", `${name} must be a whole number from ${min} to ${max}, not ${text}.`);
}

function listSetting(env: Record<string, string | undefined>, name: string, fallback: string): string[] {
  return (env[name] ?? fallback)
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}
