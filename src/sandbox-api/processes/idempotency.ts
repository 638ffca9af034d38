// The key that makes repeating a start safe: which process it stands for, and whether the same thing is asked again.
import type { ProcessRequest } from "../../contract/sandbox-api/process.ts";
import { ProcessRequest as requestSchema } from "../../contract/sandbox-api/process.ts";
import { AppError } from "../../core/errors.ts";
import type { Machine } from "../machine.ts";

/** Fingerprints: neither the key nor what a request carries can be read from a record. */
export type IdempotencyKey = { fingerprint: string; request: string };

const keyPattern = /^[\x21-\x7e]{1,255}$/;

export function readIdempotencyKey(
  header: string | readonly string[] | undefined,
  body: ProcessRequest,
  { stateKey }: Machine,
): IdempotencyKey | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== "string" || !keyPattern.test(header)) {
    throw new AppError("invalid_request", "Idempotency-Key must be 1 to 255 visible ASCII characters");
  }
  return { fingerprint: stateKey.fingerprint(`key ${header}`), request: stateKey.fingerprint(canonical(body)) };
}

/** Equal for requests that mean the same, whatever the order of their members and whatever else they carry. */
function canonical(body: ProcessRequest): string {
  const known = Object.keys(requestSchema.properties).sort() as (keyof ProcessRequest)[];
  return JSON.stringify(known.map((member) => sorted(body[member])));
}

function sorted(value: ProcessRequest[keyof ProcessRequest]): unknown {
  if (typeof value !== "object" || Array.isArray(value)) return value ?? null;
  return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
}
