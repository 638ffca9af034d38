// From what a caller sends to what a preview will be: the rules that a schema cannot state.
import { type PreviewInput, sessionPort } from "../../contract/preview.ts";
import { sandboxHostPrefix } from "../../contract/preview-address.ts";
import { parseDurationMs } from "../../core/duration.ts";
import { AppError } from "../../core/errors.ts";
import { parseTimestampMs, timestampRule } from "../../core/timestamp.ts";
import { requireHeaders } from "./header-rules.ts";
import type { PreviewRecord } from "./record.ts";

/** A century: no date that follows from it is out of range. */
const ttlMaxMs = 5_200 * 604_800_000;

export type Draft = Pick<PreviewRecord, "displayName" | "port" | "isPublic" | "spec" | "expiresAt">;

/** `createdAt` is when its `ttl` begins. */
export function draftPreview({ metadata, spec }: PreviewInput, createdAt: number, now: number): Draft {
  const { port, customDomain, prefixUrl, expires, ttl, requestHeaders, responseHeaders } = spec;
  const isPublic = spec.public ?? false;
  if (customDomain) {
    throw new AppError("invalid_request", "Not available in this version: spec.customDomain.", {
      details: { error: "FEATURE_NOT_AVAILABLE" },
    });
  }
  if (port === 80) reject("spec.port", "must not be 80");
  if (port === sessionPort && isPublic) {
    reject(
      "spec.public",
      `must be false when spec.port is ${sessionPort}: everybody could run programs in the sandbox`,
    );
  }
  if (prefixUrl) requirePrefix(prefixUrl);
  requireHeaders("requestHeaders", requestHeaders);
  requireHeaders("responseHeaders", responseHeaders);
  const ends = [readExpires(expires, now), readTtl(ttl, createdAt, now)].filter((end) => end !== undefined);
  return {
    displayName: metadata.displayName,
    port,
    isPublic,
    spec: { prefixUrl: prefixUrl || undefined, expires, ttl, requestHeaders, responseHeaders },
    expiresAt: ends.length === 0 ? undefined : new Date(Math.min(...ends)).toISOString(),
  };
}

function requirePrefix(prefix: string): void {
  const reserved = sandboxHostPrefix.slice(0, -1);
  if (prefix === reserved || prefix.startsWith(sandboxHostPrefix)) {
    reject("spec.prefixUrl", `must not begin with ${sandboxHostPrefix}, as addresses of sandboxes do`);
  }
  // What follows would be read as letters of other scripts.
  if (prefix.slice(2, 4) === "--") reject("spec.prefixUrl", "must not have hyphens in its third and fourth place");
}

function readExpires(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  return readFuture("spec.expires", text, now);
}

export function readFuture(field: string, text: string, now: number): number {
  const time = parseTimestampMs(text);
  if (time === undefined) reject(field, `must be ${timestampRule}`);
  if (time <= now) reject(field, "must be in the future");
  return time;
}

function readTtl(text: string | undefined, createdAt: number, now: number): number | undefined {
  if (text === undefined) return undefined;
  const ttlMs = parseDurationMs(text);
  if (ttlMs === undefined || ttlMs < 1_000 || ttlMs > ttlMaxMs) {
    reject("spec.ttl", "must be a whole number and one of the units s, m, h, d, w, such as 15m, of at most 5200w");
  }
  if (createdAt + ttlMs <= now) reject("spec.ttl", "must end in the future: it begins when the preview is created");
  return createdAt + ttlMs;
}

function reject(field: string, rule: string): never {
  throw new AppError("invalid_request", `${field} ${rule}`);
}
