// The value of a preview's token as it is kept: sealed, and bound to its preview and its name.
import { FirstTime } from "../../core/first-time.ts";
import type { Logger } from "../../core/log.ts";
import type { SealKey } from "../../core/seal.ts";
import type { TokenRow } from "./record.ts";

/** Neither part has a slash. */
export function tokenValueOf(previewId: string, name: string): string {
  return `preview-token:${previewId}/${name}`;
}

export function createTokenValues(sealKey: SealKey, log: Logger) {
  const unreadable = new FirstTime();
  return {
    seal: (previewId: string, name: string, value: string): string =>
      sealKey.seal(value, tokenValueOf(previewId, name)),

    /** Undefined for a token made when values were not kept, and for one whose value cannot be opened: it still opens its preview. */
    find({ sealed_value, preview_id: preview, name }: TokenRow): string | undefined {
      if (sealed_value === null) return undefined;
      const record = tokenValueOf(preview, name);
      try {
        return sealKey.open(sealed_value, record);
      } catch (error) {
        if (unreadable.meets(record)) log.error({ record, err: error }, "a sealed text cannot be opened");
        return undefined;
      }
    },
  };
}

export type TokenValues = ReturnType<typeof createTokenValues>;
