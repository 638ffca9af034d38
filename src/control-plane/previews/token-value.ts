// The value of a preview's token as it is kept: sealed, and bound to its preview and its name.
import type { SealKey } from "../../core/seal.ts";
import type { TokenRow } from "./record.ts";

/** Neither part has a slash. */
export function tokenValueOf(previewId: string, name: string): string {
  return `preview-token:${previewId}/${name}`;
}

export function sealTokenValue(sealKey: SealKey, previewId: string, name: string, value: string): string {
  return sealKey.seal(value, tokenValueOf(previewId, name));
}

/** Undefined for a token that was made when values were not kept. */
export function openTokenValue(sealKey: SealKey, row: TokenRow): string | undefined {
  if (row.sealed_value === null) return undefined;
  return sealKey.open(row.sealed_value, tokenValueOf(row.preview_id, row.name));
}
