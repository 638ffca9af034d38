// What the edge asks about previews, answered from rows that are remembered until something is committed.
import type { PreviewRoute } from "../../contract/host.ts";
import { hashSecret, isSecret } from "../auth/secrets.ts";
import type { Database } from "../db/database.ts";
import type { PreviewSettings } from "./record.ts";

type RouteRow = {
  id: string;
  port: number;
  is_public: number;
  spec: string;
  expires_at: string | null;
  instance_id: string;
  status: string;
  enabled: number;
};

export type PreviewDirectory = {
  findPreview(label: string): Promise<PreviewRoute | undefined>;
  verifyPreviewToken(previewId: string, token: string): Promise<boolean>;
};

export function createPreviewDirectory(database: Database): PreviewDirectory {
  const byLabel = database.prepareRememberedRead<RouteRow>(
    `select p.id, p.port, p.is_public, p.spec, p.expires_at, s.instance_id, s.status, s.enabled
       from previews p join sandboxes s on s.id = p.sandbox_id
      where p.label = ? and s.holds_name = 1`,
  );
  const byHash = database.prepareRememberedRead<{ expires_at: string | null }>(
    "select expires_at from preview_tokens where preview_id = ? and token_hash = ?",
  );
  /** A remembered row is the same object. */
  const read = new WeakMap<Readonly<RouteRow>, PreviewRoute>();
  return {
    async findPreview(label) {
      const row = await byLabel.first(label);
      if (row === undefined || isPast(row.expires_at)) return undefined;
      const known = read.get(row);
      if (known !== undefined) return known;
      const route = readRoute(row);
      read.set(row, route);
      return route;
    },
    async verifyPreviewToken(previewId, token) {
      // Texts that are none must not push others out of what is remembered.
      if (!isSecret("previewToken", token)) return false;
      const row = await byHash.first(previewId, hashSecret(token));
      return row !== undefined && !isPast(row.expires_at);
    },
  };
}

function readRoute(row: Readonly<RouteRow>): PreviewRoute {
  const { requestHeaders = {}, responseHeaders = {} } = JSON.parse(row.spec) as PreviewSettings;
  return {
    previewId: row.id,
    instanceId: row.instance_id,
    status: row.status,
    enabled: row.enabled === 1,
    port: row.port,
    isPublic: row.is_public === 1,
    requestHeaders,
    responseHeaders,
  };
}

function isPast(expiresAt: string | null): boolean {
  return expiresAt !== null && expiresAt <= new Date().toISOString();
}
