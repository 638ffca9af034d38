// Settings of the control plane: environment variables and flags, as a record of texts, become one typed and checked value.
import { isIP } from "node:net";
import { join } from "node:path";
import type { AddressSettings } from "../contract/address.ts";
import { defaultMemoryMb, memoryMinMb } from "../contract/sandbox-spec.ts";
import { readSealKeySource, type SealKeySource } from "../core/seal-keys.ts";
import { invalidSetting, readDurationMs, readInteger, readList, readText, type Settings } from "../core/settings.ts";
import type { AuditConfig } from "./audit/service.ts";
import type { RequestLimitsConfig } from "./auth/request-limits.ts";
import { requirePostgresUrl } from "./db/postgres-pool.ts";
import { type LocationConfig, readLocationConfig } from "./locations/config.ts";
import { type OauthConfig, readOauthConfig } from "./oauth/config.ts";
import { readOutgoingConfig } from "./outgoing/config.ts";
import type { OutgoingOptions } from "./outgoing/outgoing.ts";
import { readVolumeTemplateConfig, type VolumeTemplateConfig } from "./volume-templates/config.ts";

/** What ten thousand sandboxes of the usual size have. */
const workspaceMemoryDefaultMb = 10_000 * defaultMemoryMb;

export type ControlPlaneConfig = {
  /** Where this installation is reached, e.g. `http://127.0.0.1:4000`. */
  origin: string;
  databasePath: string;
  /** PostgreSQL instead of the file at `databasePath`. May hold a password: it is not for logs. */
  databaseUrl: string | undefined;
  sealKey: SealKeySource;
  /** Longer than anything may take from being sealed to being written. */
  sealKeySettleMs: number;
  featuresFile: string | undefined;
  location: LocationConfig;
  /** The one region of this installation. */
  region: string;
  memoryDefaultMb: number;
  memoryMaxMb: number;
  /** Sandboxes that hold a name in one workspace. */
  sandboxesMax: number;
  /** Memory of all of them together; like it, unless the operator gave the workspace another quota. */
  workspaceMemoryMaxMb: number;
  createTimeoutMs: number;
  /** Longest time the record of a terminated sandbox is kept (spec 2.7). */
  retentionMaxMs: number;
  idempotencyTtlMs: number;
  reconcileIntervalMs: number;
  bodyMaxBytes: number;
  bodyTimeoutMs: number;
  requestLimits: RequestLimitsConfig;
  /** Addresses and networks of proxies whose `X-Forwarded-For` is believed. */
  trustedProxies: string[];
  audit: AuditConfig;
  outgoing: OutgoingOptions;
  oauth: OauthConfig;
  volumeTemplates: VolumeTemplateConfig;
  address: AddressSettings;
};

export type Placement = {
  dataDir: string;
  /** Where this installation is reached, e.g. `http://127.0.0.1:4000`. */
  origin: string;
  /** Path below which sandboxes answer in path form, e.g. `/run`. */
  pathPrefix: string;
};

export function readControlPlaneConfig(
  settings: Settings,
  { dataDir, origin, pathPrefix }: Placement,
): ControlPlaneConfig {
  const { protocol, port } = new URL(origin);
  const region = readLabel(settings, "CATNAP_REGION") ?? "local";
  const createTimeoutMs = readDurationMs(settings, "CATNAP_CREATE_TIMEOUT", "120s");
  const memoryMaxMb = readInteger(settings, "CATNAP_MEMORY_MAX_MB", 16_384, { min: memoryMinMb, max: 4_194_304 });
  return {
    origin,
    databasePath: join(dataDir, "control-plane", "catnap.db"),
    databaseUrl: readDatabaseUrl(settings),
    sealKey: readSealKeySource(settings, join(dataDir, "seal.key")),
    sealKeySettleMs: createTimeoutMs + 60_000,
    featuresFile: readText(settings, "CATNAP_FEATURES_FILE"),
    location: readLocationConfig(settings, region),
    region,
    memoryDefaultMb: Math.min(defaultMemoryMb, memoryMaxMb),
    memoryMaxMb,
    sandboxesMax: readInteger(settings, "CATNAP_SANDBOXES_MAX", 10_000, { min: 1, max: 1_000_000 }),
    workspaceMemoryMaxMb: readInteger(settings, "CATNAP_WORKSPACE_MEMORY_MAX_MB", workspaceMemoryDefaultMb, {
      min: memoryMinMb,
      max: 1_000_000_000_000,
    }),
    createTimeoutMs,
    retentionMaxMs: readDurationMs(settings, "CATNAP_RETENTION_MAX", "7d"),
    idempotencyTtlMs: 86_400_000,
    reconcileIntervalMs: 15_000,
    bodyMaxBytes: 2_097_152,
    bodyTimeoutMs: readDurationMs(settings, "CATNAP_BODY_TIMEOUT", "30s"),
    requestLimits: readRequestLimits(settings),
    trustedProxies: readProxies(settings),
    audit: {
      retentionMs: readDurationMs(settings, "CATNAP_AUDIT_RETENTION", "90d"),
      entriesMax: readInteger(settings, "CATNAP_AUDIT_ENTRIES_MAX", 1_000_000, { min: 1_000, max: 1_000_000_000 }),
    },
    outgoing: readOutgoingConfig(settings),
    oauth: readOauthConfig(settings),
    volumeTemplates: readVolumeTemplateConfig(settings, dataDir),
    address: {
      inferenceUrl: `${origin}${pathPrefix}`,
      sandboxDomain: readDomain(settings),
      scheme: protocol === "https:" ? "https" : "http",
      port: port === "" ? undefined : Number(port),
    },
  };
}

/** Twice what is allowed in a second may come at once. */
function readRequestLimits(settings: Settings): RequestLimitsConfig {
  const perSecond = readInteger(settings, "CATNAP_REQUESTS_PER_SECOND", 1_000, { min: 1, max: 1_000_000 });
  const rejections = readInteger(settings, "CATNAP_REJECTIONS_PER_MINUTE", 60, { min: 1, max: 60_000_000 });
  return {
    requests: { perSecond, burst: 2 * perSecond },
    rejections: { perSecond: rejections / 60, burst: rejections },
  };
}

export function readProxies(settings: Settings): string[] {
  const proxies = readList(settings, "CATNAP_TRUSTED_PROXIES", "");
  if (proxies.every(isNetwork)) return proxies;
  const rule = "addresses or networks such as 10.0.0.1 or 10.0.0.0/8, separated by commas";
  throw invalidSetting("CATNAP_TRUSTED_PROXIES", rule);
}

function isNetwork(text: string): boolean {
  const [address = "", bits, more] = text.split("/");
  const family = isIP(address);
  if (family === 0 || more !== undefined) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** The region is a label of host-form addresses. */
function readLabel(settings: Settings, name: string): string | undefined {
  const text = settings[name] || undefined;
  if (text !== undefined && !/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text))
    throw invalidSetting(name, "a host name label");
  return text;
}

function readDomain(settings: Settings): string | undefined {
  const text = settings.CATNAP_SANDBOX_DOMAIN || undefined;
  if (text !== undefined && !/^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/.test(text)) {
    throw invalidSetting("CATNAP_SANDBOX_DOMAIN", "a domain in lower case without a port");
  }
  return text;
}

function readDatabaseUrl(settings: Settings): string | undefined {
  const url = readText(settings, "CATNAP_DATABASE_URL");
  if (url !== undefined) requirePostgresUrl(url);
  return url;
}
