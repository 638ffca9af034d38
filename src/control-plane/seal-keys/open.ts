// Puts the noun together.
import type { FastifyInstance } from "fastify";
import type { Host } from "../../contract/host.ts";
import type { Logger } from "../../core/log.ts";
import type { SealKeys } from "../../core/seal-keys.ts";
import type { Database } from "../db/database.ts";
import { SealKeyRotations } from "./rotation.ts";
import { mountSealKeys } from "./routes.ts";
import { createSealKeyStore } from "./store.ts";

export type SealKeyParts = {
  keys: SealKeys;
  config: { sealKeySettleMs: number };
  database: Database;
  host: Host;
  log: Logger;
  opened: AsyncDisposableStack;
};

export function openSealKeys({ keys, config, database, host, log, opened }: SealKeyParts) {
  const store = createSealKeyStore(database);
  const rotations = opened.use(new SealKeyRotations({ keys, store, host, settleMs: config.sealKeySettleMs, log }));
  return { operatorMount: (operator: FastifyInstance) => mountSealKeys(operator, rotations) };
}
