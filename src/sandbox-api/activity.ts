// How open connections count as use of a sandbox, where their bytes alone do not tell: keepalives and pings are nobody's use.
import type { IncomingMessage } from "node:http";

/**
 * `reports`: it is used when Machine.touch says so, and not by other bytes.
 * `holds`: somebody awaits the outcome of what runs inside, and it must get there however silent it is.
 */
export type ActivityRule = "reports" | "holds";

const rules = new WeakMap<IncomingMessage, ActivityRule>();

export function countActivity(request: IncomingMessage, rule: ActivityRule): void {
  rules.set(request, rule);
}

/** Undefined: every byte it carries is use. */
export function activityRule(request: IncomingMessage): ActivityRule | undefined {
  return rules.get(request);
}
