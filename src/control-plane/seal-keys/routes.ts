// The operator's operations on the sealing key, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { getSealKey } from "../../contract/operator/seal-key.ts";
import type { SealKey } from "../../core/seal.ts";

export function mountSealKeys(app: FastifyInstance, sealKey: SealKey): void {
  implement(app, getSealKey, () => ({ keyId: sealKey.id }));
}
