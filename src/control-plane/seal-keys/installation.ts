// Whether the keys at hand are those the database was sealed with: asked before anything is opened or sealed.
import { AppError } from "../../core/errors.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Queries } from "../db/database.ts";

/** Throws when a key is missing. Notes when a new key has taken over, so that the old one is needed until everything is sealed anew. */
export async function requireSealKeys(queries: Queries, sealKey: SealKey): Promise<void> {
  const { seal_key_id: current, previous_seal_key_id: previous } = await queries
    .selectFrom("installation")
    .select(["seal_key_id", "previous_seal_key_id"])
    .executeTakeFirstOrThrow();
  const present = [sealKey.id, ...sealKey.previousIds];
  if (!present.includes(current)) {
    throw new AppError(
      "internal",
      "The sealing key does not belong to this database: restore the key file it was made with, or set CATNAP_SEAL_KEY to that key.",
    );
  }
  if (previous !== null && !present.includes(previous)) {
    throw new AppError(
      "internal",
      "A change of the sealing key has not ended, and the key before it is missing: restore the key file, or set CATNAP_SEAL_KEY_PREVIOUS.",
    );
  }
  if (current === sealKey.id) return;
  if (previous !== null && previous !== sealKey.id) {
    throw new AppError("internal", "A change of the sealing key has not ended: end it before the key changes again.");
  }
  await queries.updateTable("installation").set({ seal_key_id: sealKey.id, previous_seal_key_id: current }).execute();
}
