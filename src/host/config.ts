// What a host can be told, read from a record of environment variables and flags; defaults and cross-checks live here.
import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { invalidSetting, readDurationMs, readInteger, readList, readText, type Settings } from "../core/settings.ts";

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
  /** ripgrep, a static binary: it searches inside sandboxes. */
  searchBinary: string;
  cgroupParent: string;
  insecureRegistries: string[];
  imageMaxBytes: number;
  /** How long an image that no instance runs on is kept. */
  imageRetentionMs: number;
  networkCidr: string;
  /** Processes and threads one sandbox may have. */
  processesMax: number;
  /** How long a multipart upload into a sandbox may lie without another part coming. */
  multipartTtlMs: number;
};

export const defaultDataDir = "/var/lib/catnap";

export function readHostConfig(settings: Settings, projectRoot: string): HostConfig {
  const text = (name: string, fallback: string): string => readText(settings, name) ?? fallback;
  const dataDir = realPath(resolve(text("CATNAP_DATA_DIR", defaultDataDir)));
  const imageMaxMb = readInteger(settings, "CATNAP_IMAGE_MAX_MB", 10_240, { min: 1, max: 1_048_576 });
  return {
    dataDir,
    imageDir: resolve(text("CATNAP_IMAGE_DIR", join(dataDir, "images"))),
    idleTimeoutMs: readDurationMs(settings, "CATNAP_IDLE_TIMEOUT", "15s"),
    warmInstances: readInteger(settings, "CATNAP_WARM_INSTANCES", 2, { min: 0, max: 100 }),
    warmImages: readList(settings, "CATNAP_WARM_IMAGES", "blaxel/base-image:latest"),
    ociRuntime: text("CATNAP_OCI_RUNTIME", "runc"),
    guestBinary: resolve(text("CATNAP_GUEST_BINARY", join(projectRoot, "guest/build/catnap-init"))),
    searchBinary: resolve(
      text("CATNAP_SEARCH_BINARY", join(projectRoot, `node_modules/@vscode/ripgrep-linux-${process.arch}/bin/rg`)),
    ),
    cgroupParent: text("CATNAP_CGROUP_PARENT", "catnap"),
    insecureRegistries: readRegistries(settings, "CATNAP_INSECURE_REGISTRIES"),
    imageMaxBytes: imageMaxMb * 1024 * 1024,
    imageRetentionMs: readDurationMs(settings, "CATNAP_IMAGE_RETENTION", "30d"),
    networkCidr: text("CATNAP_NETWORK_CIDR", "10.201.0.0/16"),
    processesMax: readInteger(settings, "CATNAP_PROCESSES_MAX", 4_096, { min: 16, max: 1_000_000 }),
    multipartTtlMs: readDurationMs(settings, "CATNAP_MULTIPART_TTL", "24h"),
  };
}

function readRegistries(settings: Settings, name: string): string[] {
  const registries = readList(settings, name, "");
  if (registries.every((registry) => /^[A-Za-z0-9.-]+(:\d{1,5})?$/.test(registry))) return registries;
  throw invalidSetting(name, "a list such as registry.lan:5000, separated by commas and without https://");
}

/** What is named after a directory must have the same name whichever link leads there, and before the directory exists. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path === dirname(path) ? path : join(realPath(dirname(path)), basename(path));
  }
}
