// Remembers when each API key was last used and writes it down once in a while, so that no request waits for it.
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { ApiKeyStore } from "./store.ts";

/** Many keys are noted in several writes, so that none holds up other commits. */
const keysPerWrite = 500;

export type LastUse = AsyncDisposable & { note(keyId: string): void; write(): Promise<void> };

export function openLastUse(options: { store: ApiKeyStore; intervalMs: number; log: Logger }): LastUse {
  const { store, intervalMs, log } = options;
  const used = new Set<string>();
  const write = async (): Promise<void> => {
    const at = new Date().toISOString();
    const ids = [...used];
    used.clear();
    for (let start = 0; start < ids.length; start += keysPerWrite) {
      await store.noteUse(new Map(ids.slice(start, start + keysPerWrite).map((id) => [id, at])));
    }
  };
  const loop = startLoop({ name: "last use of API keys", intervalMs, log, work: write });
  return {
    note: (keyId) => void used.add(keyId),
    write,
    async [Symbol.asyncDispose]() {
      await loop[Symbol.asyncDispose]();
      await write();
    },
  };
}
