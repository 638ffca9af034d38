// The words that the events of a sandbox use, by the status it enters.
import type { SandboxStatus } from "../../contract/sandbox-status.ts";

export const statusEventType = "status";

/** Events kept and shown of one sandbox; older ones leave. */
export const eventsMax = 100;

const messages: Partial<Record<SandboxStatus, string>> = {
  DEPLOYING: "The sandbox is being created",
  DEPLOYED: "The sandbox is ready",
  DELETING: "The sandbox is being deleted",
  TERMINATED: "The sandbox is gone; nothing of it is left",
  FAILED: "The sandbox failed",
};

export function describeStatus(status: SandboxStatus): string {
  return messages[status] ?? `The sandbox is ${status}`;
}
