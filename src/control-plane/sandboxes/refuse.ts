// How a field of a sandbox is refused: its name and the rule, never its value where that could be a secret.
import { AppError } from "../../core/errors.ts";

/** `rule` completes the sentence, e.g. `must be at most 5`. */
export function refuse(field: string, rule: string): never {
  throw new AppError("invalid_request", `${field} ${rule}`);
}

/** Refuses the first value that appeared before. */
export function requireDifferent(values: readonly (string | undefined)[], fieldOf: (index: number) => string): void {
  const seen = new Set<string>();
  for (const [index, value] of values.entries()) {
    if (value === undefined) continue;
    if (seen.has(value)) refuse(fieldOf(index), `must differ from the others: ${value.slice(0, 100)} appears twice`);
    seen.add(value);
  }
}
