// The health report of a sandbox (spec 2.16).
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const UpgradeAttempt = Type.Object({
  status: Type.String(),
  step: Type.String(),
  version: Type.String(),
  binaryPath: Type.Optional(Type.String()),
  downloadUrl: Type.Optional(Type.String()),
  error: Type.Optional(Type.String()),
  lastAttempt: Type.Optional(Type.String()),
  bytesDownloaded: Type.Optional(Type.Integer()),
});

export type UpgradeAttempt = Static<typeof UpgradeAttempt>;

export const HealthReport = Type.Object({
  status: Type.String(),
  arch: Type.String(),
  os: Type.String(),
  gitCommit: Type.String(),
  goVersion: Type.String(),
  version: Type.String(),
  buildTime: Type.String(),
  startedAt: Type.String(),
  uptime: Type.String(),
  uptimeSeconds: Type.Number(),
  upgradeCount: Type.Integer(),
  /** Absent until an upgrade was attempted. */
  lastUpgrade: Type.Optional(UpgradeAttempt),
});
export type HealthReport = Static<typeof HealthReport>;

export const getHealth = endpoint({
  method: "GET",
  path: "/health",
  summary: "Report the health, version and upgrades of the sandbox API",
  tag: "health",
  scope: "sandboxes:control",
  response: HealthReport,
});
