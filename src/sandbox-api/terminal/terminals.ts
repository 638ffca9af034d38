// All terminals of a sandbox, by the names that callers give them. What runs is the guest's truth: names are found again in its tokens.
import { createHash } from "node:crypto";
import type { TerminalQuery } from "../../contract/sandbox-api/terminal.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import type { GuestProcess, Machine, ProcessSink, TerminalSize } from "../machine.ts";
import { resolvePath } from "../sandbox-path.ts";
import { Terminal } from "./terminal.ts";

/** A token is what its session's name becomes, then what tells this shell from an earlier one of the name. Other owners' have other lengths. */
const nameLength = 17;
const tokenLength = 26;
const terminalsMax = 16;
/** Of all terminals together: each may have much to take before it is dropped. */
const connectionsMax = 64;
const idleMaxMs = 600_000;
const sweepMs = 30_000;
const defaultSize: TerminalSize = { columns: 80, rows: 24 };
const shells = ["/bin/bash", "/bin/sh"];

export class Terminals implements Disposable {
  readonly sink: ProcessSink = {
    output: async (token, _stream, offset, chunk) => {
      this.#checkOpen();
      await this.#byToken(token)?.output(offset, chunk);
      // Who began to wait before the end of this daemon must not acknowledge after it.
      this.#checkOpen();
    },
    exit: async (token, end) => {
      this.#checkOpen();
      this.#byToken(token)?.ended(end);
    },
  };
  readonly #machine: Machine;
  readonly #terminals = new Map<string, Terminal>();
  readonly #starting = new Map<string, Promise<Terminal>>();
  #sweep: NodeJS.Timeout | undefined;
  #isDisposed = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  get isDisabled(): boolean {
    return !/^(?:|0|false|no)$/i.test(this.#machine.environment.DISABLE_TERMINAL ?? "");
  }

  owns(token: string): boolean {
    return token.length === tokenLength;
  }

  /** The session's shell, started when there is none. */
  async open(query: TerminalQuery): Promise<Terminal> {
    if (this.isDisabled) throw new AppError("forbidden", "DISABLE_TERMINAL is set in this sandbox.");
    const name = nameOf(query.sessionId ?? "default");
    const running = this.#starting.get(name) ?? this.#terminals.get(name);
    if (running !== undefined) return running;
    if (this.#terminals.size >= terminalsMax) {
      throw new AppError("rate_limited", `At most ${terminalsMax} terminals can be open in a sandbox.`);
    }
    const starting = this.#start(name, query).finally(() => this.#starting.delete(name));
    this.#starting.set(name, starting);
    return starting;
  }

  /** Nothing may happen between this and the connection. */
  checkRoom(): void {
    const connections = [...this.#terminals.values()].reduce((sum, { clientCount }) => sum + clientCount, 0);
    if (connections < connectionsMax) return;
    throw new AppError(
      "rate_limited",
      `At most ${connectionsMax} connections to the terminals of a sandbox are possible.`,
    );
  }

  /** Shells that a former daemon started are found again. */
  guestConnected(held: readonly GuestProcess[]): void {
    for (const { token, end } of held) {
      const name = token.slice(0, nameLength);
      if (this.owns(token) && end === undefined && !this.#terminals.has(name)) this.#add(name, token, defaultSize);
    }
    const tokens = new Set(held.map(({ token }) => token));
    for (const [name, terminal] of [...this.#terminals]) {
      if (!tokens.has(terminal.token) && !this.#starting.has(name)) terminal.ended(undefined);
    }
  }

  guestLost(): void {
    for (const terminal of [...this.#terminals.values()]) terminal.ended(undefined);
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    clearInterval(this.#sweep);
    for (const terminal of this.#terminals.values()) terminal.disconnect("connect again");
  }

  async #start(name: string, query: TerminalQuery): Promise<Terminal> {
    const { environment, homeDir, guest } = this.#machine;
    const size = { columns: query.cols ?? defaultSize.columns, rows: query.rows ?? defaultSize.rows };
    const token = name + randomToken(tokenLength - nameLength);
    const terminal = this.#add(name, token, size);
    const candidates = [query.shell ?? environment.SHELL].filter((shell) => shell !== undefined && shell !== "");
    const request = {
      token,
      workingDir: resolvePath(query.workingDir ?? "", this.#machine),
      environment: { HOME: homeDir, LANG: "C.UTF-8", ...environment, TERM: "xterm-256color", COLORTERM: "truecolor" },
      terminal: size,
    };
    try {
      await this.#spawn(request, candidates.length > 0 ? (candidates as string[]) : shells);
      return terminal;
    } catch (error) {
      terminal.ended(undefined);
      // Whether it runs is unknown: then nobody wants it.
      if (error instanceof AppError && error.code === "unavailable") guest.signal(token, 9).catch(() => undefined);
      throw error;
    }
  }

  async #spawn(request: Omit<Parameters<Machine["guest"]["spawn"]>[0], "argv">, programs: string[]): Promise<void> {
    for (const [index, program] of programs.entries()) {
      if (program.includes("\0")) throw new AppError("invalid_request", "query parameter 'shell' contains a NUL byte");
      try {
        await this.#machine.guest.spawn({ ...request, argv: [program] });
        return;
      } catch (error) {
        const isAbsent = error instanceof AppError && (error.code === "unprocessable" || error.code === "not_found");
        if (!isAbsent || index + 1 < programs.length) {
          if (!isAbsent) throw error;
          continue;
        }
        const { message } = error;
        throw new AppError("unprocessable", `The shell '${program}' cannot be started: ${message}`, { cause: error });
      }
    }
  }

  #add(name: string, token: string, size: TerminalSize): Terminal {
    const terminal = new Terminal(token, this.#machine, size, () => {
      if (this.#terminals.get(name) === terminal) this.#terminals.delete(name);
      if (this.#terminals.size > 0) return;
      clearInterval(this.#sweep);
      this.#sweep = undefined;
    });
    this.#terminals.set(name, terminal);
    this.#sweep ??= setInterval(() => this.sweep(sweepMs), sweepMs).unref();
    return terminal;
  }

  /** Ends shells that nobody has been connected to, and that have shown nothing, for long. Time asleep does not count. */
  sweep(passedMs: number): void {
    for (const terminal of [...this.#terminals.values()]) {
      terminal.checkAlive();
      if (terminal.clientCount > 0 || this.#machine.isAsleep) continue;
      terminal.idleMs += passedMs;
      if (terminal.idleMs >= idleMaxMs) void terminal.hangUp();
    }
  }

  #byToken(token: string): Terminal | undefined {
    const terminal = this.#terminals.get(token.slice(0, nameLength));
    return terminal?.token === token ? terminal : undefined;
  }

  #checkOpen(): void {
    if (this.#isDisposed) throw new AppError("unavailable", "The sandbox is being handed over; nothing was taken.");
  }
}

/** Fits into a token, whatever the name is. With 79 bits no two names meet by chance. */
function nameOf(sessionId: string): string {
  const digest = createHash("sha256").update(sessionId).digest();
  return `t${digest.readBigUInt64BE(0).toString(36).padStart(13, "0")}${(digest.readUInt32BE(8) % 46_656).toString(36).padStart(3, "0")}`;
}
