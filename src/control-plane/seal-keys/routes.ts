// The operator's operations on the sealing key, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import { getSealKey, rotateSealKey } from "../../contract/operator/seal-key.ts";
import type { SealKeyRotations } from "./rotation.ts";

export function mountSealKeys(operator: FastifyInstance, rotations: SealKeyRotations): void {
  implement(operator, getSealKey, () => rotations.status());

  implement(operator, rotateSealKey, () => rotations.start());
}
