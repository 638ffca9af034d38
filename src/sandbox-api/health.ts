// The health report (spec 2.16) and the welcome at the root.
import { statSync } from "node:fs";
import { getHealth, type HealthReport } from "../contract/sandbox-api/health.ts";
import { type App, route } from "./route.ts";

export type Build = { version: string; commit: string; startedAt: Date };

/** Names of processor architectures as clients of this report know them. */
const architectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64", ia32: "386" };

export function registerHealthRoutes(app: App, build: Build): void {
  // Nothing is compiled: the build is the moment this file was put in place.
  const buildTime = statSync(import.meta.filename).mtime.toISOString();

  route(app, getHealth, ({ session }): HealthReport => {
    const { last } = session.upgrades;
    const uptimeSeconds = (Date.now() - build.startedAt.getTime()) / 1_000;
    return {
      status: "ok",
      arch: architectures[process.arch] ?? process.arch,
      os: process.platform,
      gitCommit: build.commit,
      goVersion: `node${process.versions.node}`,
      version: build.version,
      buildTime,
      startedAt: build.startedAt.toISOString(),
      uptime: formatUptime(uptimeSeconds),
      uptimeSeconds,
      upgradeCount: session.machine.upgradeCount,
      ...(last !== undefined && { lastUpgrade: last }),
    };
  });

  app.route({
    method: ["GET", "HEAD", "POST", "PUT", "DELETE"],
    url: "/",
    handler: () => ({
      message: "This is the API of a sandbox.",
      version: build.version,
      health: "/health",
      processes: "/process",
      files: "/filesystem/{path}",
      ports: "/port/{number}/",
      terminal: "/terminal",
      tools: "/mcp",
    }),
  });
}

/** Whole seconds as hours, minutes and seconds, e.g. `1h2m3s`; leading units that are zero are left out. */
export function formatUptime(seconds: number): string {
  const whole = Math.floor(seconds);
  const [hours, minutes] = [Math.floor(whole / 3_600), Math.floor((whole % 3_600) / 60)];
  const rest = `${whole % 60}s`;
  if (hours > 0) return `${hours}h${minutes}m${rest}`;
  return minutes > 0 ? `${minutes}m${rest}` : rest;
}
