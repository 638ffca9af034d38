// Which status of a sandbox allows which action (spec section 3): the one table that services and the edge ask.
//
//                                ┌── update: the same instance, or a new one (no status between)
//                                ▼  │
//   create ──▶ DEPLOYING ──▶ DEPLOYED ◀─ found again ─┐
//                 │  │           │                    │
//   failed, undone◀─┘  │           └─ instance lost ─▶ FAILED
//   (no record)      │           │                    │
//                    └── delete ─┴──▶ DELETING ◀──────┘ delete, or the name is created again
//                                        │
//                                        │ nothing of it is left on the host
//                                        ▼
//                                    TERMINATED ──▶ (no record, after the retention)
//
// The remaining values of the specification's list belong to image builds, deactivation and archives; nothing enters them.

export const sandboxStatuses = [
  "DELETING",
  "TERMINATED",
  "FAILED",
  "DEACTIVATED",
  "DEACTIVATING",
  "UPLOADING",
  "BUILDING",
  "DEPLOYING",
  "DEPLOYED",
  "BUILT",
  "ARCHIVING",
  "ARCHIVED",
  "UNARCHIVING",
] as const;
export type SandboxStatus = (typeof sandboxStatuses)[number];

export type SandboxAction =
  /** Requests to the sandbox's own address. */
  | "connect"
  | "delete"
  | "update"
  /** Counts as an existing sandbox for `createIfNotExist`. */
  | "reuse"
  /** No other sandbox may have the name. */
  | "hold_name"
  /** Appears in lists that do not ask for terminated ones. */
  | "list";

const allowed: Readonly<Record<SandboxStatus, readonly SandboxAction[]>> = {
  DEPLOYING: ["delete", "hold_name", "list"],
  DEPLOYED: ["connect", "delete", "update", "reuse", "hold_name", "list"],
  FAILED: ["delete", "list"],
  DELETING: ["delete"],
  TERMINATED: [],
  UPLOADING: ["delete", "hold_name", "list"],
  BUILDING: ["delete", "hold_name", "list"],
  BUILT: ["delete", "hold_name", "list"],
  DEACTIVATING: ["delete", "hold_name", "list"],
  DEACTIVATED: ["delete", "reuse", "hold_name", "list"],
  ARCHIVING: ["delete", "reuse", "hold_name", "list"],
  ARCHIVED: ["delete", "reuse", "hold_name", "list"],
  UNARCHIVING: ["delete", "reuse", "hold_name", "list"],
};

export function allows(status: SandboxStatus, action: SandboxAction): boolean {
  return allowed[status].includes(action);
}

/** Every status that allows an action, for queries. */
export function statusesThatAllow(action: SandboxAction): SandboxStatus[] {
  return sandboxStatuses.filter((status) => allows(status, action));
}
