// Upload URLs of this platform: whoever has one may send one archive of one version, without any other credential, until it expires or whoever
// asked for it belongs to the workspace no more.
import { timingSafeEqual } from "node:crypto";
import type { SealKey } from "../../core/seal.ts";

/** Relative to the platform's origin; not below the credential's guard. */
export const uploadPath = "/v0/uploads/:versionId";

export type UploadTarget = { workspaceId: string; templateId: string; versionId: string };

export type UploadGrant = UploadTarget & {
  expiresAtMs: number;
  maxBytes: number;
  /** Who asked for the URL. */
  principalId: string;
};

/** As the URL's query was parsed: nothing about it is certain. */
export type UploadQuery = Readonly<Record<string, unknown>>;

export type UploadUrls = ReturnType<typeof createUploadUrls>;

export function createUploadUrls({ sealKey, origin }: { sealKey: SealKey; origin: string }) {
  // The key of fingerprints is derived from the seal key; the first word keeps these apart from its other uses.
  const sign = ({ workspaceId, templateId, versionId, expiresAtMs, maxBytes, principalId }: UploadGrant): string => {
    const signed = ["upload", "PUT", workspaceId, templateId, versionId, expiresAtMs, maxBytes, principalId];
    return sealKey.fingerprint(signed.join("\n"));
  };
  return {
    create(grant: UploadGrant): string {
      const query = new URLSearchParams({
        expires: String(grant.expiresAtMs),
        maxBytes: String(grant.maxBytes),
        by: grant.principalId,
        signature: sign(grant),
      });
      return `${origin}${uploadPath.replace(":versionId", grant.versionId)}?${query}`;
    },

    /** What the query of a URL grants for the target, or undefined when it is not one of ours for it or has expired. */
    verify(target: UploadTarget, query: UploadQuery, nowMs: number): UploadGrant | undefined {
      const expiresAtMs = readNumber(query.expires);
      const maxBytes = readNumber(query.maxBytes);
      const { signature, by: principalId } = query;
      if (expiresAtMs === undefined || maxBytes === undefined) return undefined;
      if (typeof signature !== "string" || typeof principalId !== "string") return undefined;
      const grant = { ...target, expiresAtMs, maxBytes, principalId };
      const expected = Buffer.from(sign(grant));
      const given = Buffer.from(signature);
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      return nowMs < expiresAtMs ? grant : undefined;
    },
  };
}

function readNumber(text: unknown): number | undefined {
  return typeof text === "string" && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
}
