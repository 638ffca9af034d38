// What the routes know of the sandbox they serve; one Fastify app serves all, the raw request says which.
import type { IncomingMessage } from "node:http";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Machine } from "./machine.ts";
import type { MemoryBudget } from "./memory-budget.ts";
import type { PortMonitors } from "./network/port-monitors.ts";
import type { Processes } from "./processes/processes.ts";
import type { Terminals } from "./terminal/terminals.ts";
import type { ToolRuns } from "./tools/tool-runs.ts";
import type { Upgrades } from "./upgrade/upgrades.ts";
import type { Uploads } from "./uploads/uploads.ts";

export type SessionContext = {
  machine: Machine;
  processes: Processes;
  uploads: Uploads;
  monitors: PortMonitors;
  upgrades: Upgrades;
  tools: ToolRuns;
  terminals: Terminals;
  log: Logger;
  /** For content that stands in memory whole. */
  budget: MemoryBudget;
  /** Aborts when the session is disposed; its reason is an AppError. */
  ended: AbortSignal;
};

const sessions = new WeakMap<IncomingMessage, SessionContext>();

export function bindSession(request: IncomingMessage, session: SessionContext): void {
  sessions.set(request, session);
}

export function sessionOf(request: IncomingMessage): SessionContext {
  const session = sessions.get(request);
  if (session === undefined) throw new AppError("internal", "The request belongs to no sandbox.");
  return session;
}
