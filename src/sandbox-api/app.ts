// The sandbox API of a host: one HTTP app, and a session for each instance it serves.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { AppError, toAppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { answerError, refuseUpgrade } from "./error-answer.ts";
import { createApp } from "./http-app.ts";
import type { GuestProcess, Machine, ProcessSink } from "./machine.ts";
import { MemoryBudget } from "./memory-budget.ts";
import { PortMonitors } from "./network/port-monitors.ts";
import { PortProxy } from "./ports/port-proxy.ts";
import { upgradePort } from "./ports/port-upgrade.ts";
import { parsePortUrl } from "./ports/port-url.ts";
import { Processes } from "./processes/processes.ts";
import type { App } from "./route.ts";
import type { SandboxApi, SandboxSession } from "./session.ts";
import { bindSession, type SessionContext } from "./session-context.ts";
import { isTerminalUrl, upgradeTerminal } from "./terminal/terminal-upgrade.ts";
import { Terminals } from "./terminal/terminals.ts";
import { ToolRuns } from "./tools/tool-runs.ts";
import type { InitSource } from "./upgrade/init-source.ts";
import { Upgrades, type UpgradesOptions } from "./upgrade/upgrades.ts";
import { Uploads, type UploadsOptions } from "./uploads/uploads.ts";

/** Memory for content that cannot be streamed, of all sandboxes and of one, so that one cannot take everybody's. */
const contentMaxBytes = 512 * 1024 * 1024;
const sandboxContentMaxBytes = 96 * 1024 * 1024;
const waiting = { waitingMax: 256, waitMs: 30_000 };

export type SandboxApiOptions = {
  log: Logger;
  version: string;
  commit: string;
  startedAt: Date;
  inits: InitSource;
  /** How long an init that is to take over may leave its caller waiting. */
  upgradePatienceMs?: number;
  /** How long a multipart upload may lie without another part coming. */
  multipartTtlMs?: number;
  /** Where its parts lie inside the sandbox. */
  multipartRoot?: string;
};

export function createSandboxApi({
  log,
  inits,
  upgradePatienceMs,
  multipartTtlMs,
  multipartRoot,
  ...build
}: SandboxApiOptions): SandboxApi {
  const app = createApp({ log, build });
  const sessions = new Set<Session>();
  const budget = new MemoryBudget({ ...waiting, totalBytes: contentMaxBytes });
  return {
    async open(machine) {
      await app.ready();
      const uploads = { ttlMs: multipartTtlMs, partsRoot: multipartRoot };
      const upgrades = { source: inits, patienceMs: upgradePatienceMs };
      const parts = { app, machine, log, budget, upgrades, uploads };
      const session = new Session(parts, () => sessions.delete(session));
      sessions.add(session);
      return session;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...sessions].map((session) => session[Symbol.asyncDispose]()));
      await app.close();
    },
  };
}

type SessionParts = {
  app: App;
  machine: Machine;
  log: Logger;
  budget: MemoryBudget;
  upgrades: Pick<UpgradesOptions, "source" | "patienceMs">;
  uploads: UploadsOptions;
};

class Session implements SandboxSession {
  readonly #app: App;
  readonly #context: SessionContext;
  readonly #ports: PortProxy;
  readonly #end = new AbortController();
  readonly #onDisposed: () => void;

  constructor(parts: SessionParts, onDisposed: () => void) {
    const { app, machine, log, budget, upgrades, uploads } = parts;
    this.#app = app;
    this.#onDisposed = onDisposed;
    const own = log.child({ instance: machine.instanceId });
    this.#context = {
      machine,
      processes: new Processes(machine, own),
      uploads: new Uploads(machine, uploads),
      tools: new ToolRuns(machine),
      terminals: new Terminals(machine),
      monitors: new PortMonitors(machine, own, this.#end.signal),
      upgrades: new Upgrades({ ...upgrades, machine, log: own, ended: this.#end.signal }),
      log: own,
      budget: new MemoryBudget({ ...waiting, totalBytes: sandboxContentMaxBytes, parent: budget }),
      ended: this.#end.signal,
    };
    this.#ports = new PortProxy(this.#context);
  }

  get sink(): ProcessSink {
    const { processes, tools, terminals } = this.#context;
    const ownerOf = (token: string): ProcessSink =>
      [tools, terminals].find((owner) => owner.owns(token))?.sink ?? processes.sink;
    return {
      output: (token, stream, offset, chunk) => ownerOf(token).output(token, stream, offset, chunk),
      pace: async (token) => ownerOf(token).pace?.(token),
      exit: (token, end) => ownerOf(token).exit(token, end),
    };
  }

  guestConnected(held: readonly GuestProcess[]): Promise<void> {
    const { processes, tools, terminals } = this.#context;
    tools.guestConnected(held);
    terminals.guestConnected(held);
    return processes.guestConnected(held.filter(({ token }) => !tools.owns(token) && !terminals.owns(token)));
  }

  guestLost(): Promise<void> {
    const { processes, tools, monitors } = this.#context;
    tools.guestLost();
    this.#context.terminals.guestLost();
    monitors.guestLost();
    return processes.guestLost();
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    try {
      this.#context.ended.throwIfAborted();
      oneLeadingSlash(request);
      const target = parsePortUrl(request.url!);
      if (target !== undefined) return this.#ports.handle(request, response, target);
      bindSession(request, this.#context);
      this.#context.uploads.collect();
      this.#app.routing(request, response);
    } catch (error) {
      answerError(request, response, this.#report(error));
    }
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    try {
      this.#context.ended.throwIfAborted();
      oneLeadingSlash(request);
      if (isTerminalUrl(request.url!)) return upgradeTerminal(request, socket, head, this.#context);
      upgradePort(request, socket, head, this.#context);
    } catch (error) {
      refuseUpgrade(request, socket, this.#report(error));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#end.signal.aborted) return;
    this.#end.abort(new AppError("unavailable", "The sandbox is being handed over or removed."));
    this.#onDisposed();
    this.#context.monitors[Symbol.dispose]();
    this.#context.terminals[Symbol.dispose]();
    this.#ports[Symbol.dispose]();
    await this.#context.processes[Symbol.asyncDispose]();
  }

  #report(error: unknown): AppError {
    const failure = toAppError(error);
    if (failure.code === "internal") this.#context.log.error({ err: error }, "request failed");
    return failure;
  }
}

/** Clients that join a base URL ending in a slash with a path send two. */
function oneLeadingSlash(request: IncomingMessage): void {
  if (request.url!.startsWith("//")) request.url = request.url!.replace(/^\/+/, "/");
}
