// Settings of volume templates: how many, how large, how long an upload may take, and where archives are kept.
import { join } from "node:path";
import { readDurationMs, readInteger, type Settings } from "../../core/settings.ts";
import { readS3Settings, type S3Settings } from "../object-store/config.ts";

export type VolumeTemplateConfig = {
  /** Of the archives, when there is no bucket for them. */
  directory: string;
  bucket: S3Settings | undefined;
  uploadUrlTtlMs: number;
  archiveMaxBytes: number;
  /** Files and directories in one archive. */
  entriesMax: number;
  /** In one workspace. */
  templatesMax: number;
  /** Of one template. */
  versionsMax: number;
  /** All archives of one workspace together. */
  workspaceMaxBytes: number;
  /** Uploads at the same time into one workspace. */
  uploadsMax: number;
  /** What uploads leave free on the disk. */
  diskReserveBytes: number;
  /** Longest silence of a client that is sending. */
  stallMs: number;
  /** Longest upload, however steadily it moves. */
  uploadMaxMs: number;
  /** How often the bucket is asked whether uploads have come. */
  collectIntervalMs: number;
  /** How often everything that is kept is compared with what versions need. */
  sweepIntervalMs: number;
};

const megabyte = 1_048_576;

export function readVolumeTemplateConfig(settings: Settings, dataDir: string): VolumeTemplateConfig {
  const read = (name: string, fallback: number, max: number): number =>
    readInteger(settings, name, fallback, { min: 1, max });
  return {
    directory: join(dataDir, "volume-templates"),
    bucket: readS3Settings(settings),
    uploadUrlTtlMs: readDurationMs(settings, "CATNAP_UPLOAD_URL_TTL", "1h"),
    // What S3 takes in one request.
    archiveMaxBytes: read("CATNAP_VOLUME_TEMPLATE_MAX_MB", 5_120, 5_120) * megabyte,
    entriesMax: read("CATNAP_VOLUME_TEMPLATE_FILES_MAX", 100_000, 1_000_000),
    templatesMax: read("CATNAP_VOLUME_TEMPLATES_MAX", 200, 10_000),
    versionsMax: read("CATNAP_VOLUME_TEMPLATE_VERSIONS_MAX", 50, 1_000),
    workspaceMaxBytes: read("CATNAP_VOLUME_TEMPLATES_MAX_MB", 51_200, 1_073_741_824) * megabyte,
    uploadsMax: 8,
    diskReserveBytes: readInteger(settings, "CATNAP_DISK_RESERVE_MB", 1_024, { min: 0, max: 1_073_741_824 }) * megabyte,
    stallMs: readDurationMs(settings, "CATNAP_UPLOAD_STALL", "60s"),
    uploadMaxMs: 6 * 3_600_000,
    collectIntervalMs: 5_000,
    sweepIntervalMs: 600_000,
  };
}
