// The list of infrastructure failures of a sandbox: what hosts report and what the control plane adds, oldest first and bounded.
import type { InfrastructureError } from "../../contract/host.ts";

/** Failures kept and shown of one sandbox; older ones leave. */
export const failuresMax = 50;

/** Both lists without repetitions. Returns `kept` itself when the other adds nothing. */
export function mergeFailures(
  kept: readonly InfrastructureError[],
  reported: readonly InfrastructureError[],
): readonly InfrastructureError[] {
  if (reported.length === 0) return kept;
  const known = new Set(kept.map(identify));
  const oldest = kept.length >= failuresMax ? kept[0]?.time : undefined;
  const added = reported.filter((one) => {
    const isNew = !known.has(identify(one)) && (oldest === undefined || one.time > oldest);
    known.add(identify(one));
    return isNew;
  });
  if (added.length === 0) return kept;
  return [...kept, ...added].sort((left, right) => compare(left.time, right.time)).slice(-failuresMax);
}

/** No failure is fatal any more: the sandbox is what it was. */
export function forgiveFailures(kept: readonly InfrastructureError[]): readonly InfrastructureError[] {
  return kept.map((one) => (one.fatal ? { ...one, fatal: false } : one));
}

function identify({ code, instance, time, message }: InfrastructureError): string {
  return JSON.stringify([code, instance, time, message]);
}

function compare(left: string, right: string): number {
  return left === right ? 0 : left < right ? -1 : 1;
}
