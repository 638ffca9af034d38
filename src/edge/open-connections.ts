// Ends what lasts longer than its credential: a stream or a tunnel is let in once, and asked about again as long as it is open.
import { setImmediate } from "node:timers/promises";
import type { Logger } from "../core/log.ts";
import { GatewayError, type GatewayErrorCode } from "./gateway-error.ts";

/** How long a revoked credential can still be connected. */
export const recheckIntervalMs = 15_000;

/** How long one check may keep its place; what it says later still counts. */
const checkTimeoutMs = 10_000;
const checksAtOnce = 50;

/** Anything else, such as a database that is away, says nothing about the credential. */
const endsIt: readonly GatewayErrorCode[] = [
  "AUTHENTICATION_FAILED",
  "PREVIEW_TOKEN_INVALID",
  "FORBIDDEN",
  "WORKLOAD_NOT_FOUND",
];

/** The answer to a request, or the socket of a tunnel. */
export type Connection = { closed: boolean; once(event: "close", listener: () => void): unknown; destroy(): unknown };

/** Throws a GatewayError when the caller may not be connected. */
type Recheck = () => Promise<unknown>;

export type OpenConnectionsOptions = { log: Logger; intervalMs?: number | undefined; timeoutMs?: number | undefined };

/** What one look at all connections has come to. */
type Turn = { waiting: Iterable<[Connection, Recheck]>; checked: number; unchecked: number; reason: unknown };

export class OpenConnections {
  readonly #open = new Map<Connection, Recheck>();
  readonly #log: Logger;
  readonly #intervalMs: number;
  readonly #timeoutMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor({ log, intervalMs = recheckIntervalMs, timeoutMs = checkTimeoutMs }: OpenConnectionsOptions) {
    this.#log = log;
    this.#intervalMs = intervalMs;
    this.#timeoutMs = timeoutMs;
  }

  add(connection: Connection, recheck: Recheck): void {
    if (connection.closed) return;
    this.#open.set(connection, recheck);
    connection.once("close", () => this.#open.delete(connection));
    this.#timer ??= this.#schedule();
  }

  #schedule(): NodeJS.Timeout {
    return setTimeout(() => void this.#recheckAll(), this.#intervalMs).unref();
  }

  async #recheckAll(): Promise<void> {
    // Those who work through it take turns at one iterator: each connection is checked by one of them.
    const turn: Turn = { waiting: this.#open.entries(), checked: 0, unchecked: 0, reason: undefined };
    await Promise.all(Array.from({ length: checksAtOnce }, () => this.#work(turn)));
    const { unchecked, reason } = turn;
    if (unchecked > 0) this.#log.warn({ err: reason, unchecked }, "open connections could not be checked again");
    this.#timer = this.#open.size === 0 ? undefined : this.#schedule();
  }

  async #work(turn: Turn): Promise<void> {
    for (const [connection, recheck] of turn.waiting) {
      // Remembered rows answer without leaving this turn of the event loop: others get theirs in between.
      if (++turn.checked % checksAtOnce === 0) await setImmediate();
      const failure = await this.#inTime(check(connection, recheck));
      if (failure === undefined) continue;
      turn.unchecked += 1;
      turn.reason = failure.cause;
    }
  }

  /** A check that hangs is waited for by nobody. */
  #inTime(checked: Promise<Failure>): Promise<Failure> {
    const { promise, resolve } = Promise.withResolvers<Failure>();
    const giveUp = (): void => resolve({ cause: new Error(`a check took longer than ${this.#timeoutMs} ms`) });
    const timer = setTimeout(giveUp, this.#timeoutMs).unref();
    void checked.then((failure) => {
      clearTimeout(timer);
      resolve(failure);
    });
    return promise;
  }
}

/** Why nothing was learned about a connection, if so. */
type Failure = { cause: unknown } | undefined;

async function check(connection: Connection, recheck: Recheck): Promise<Failure> {
  try {
    await recheck();
  } catch (error) {
    if (!(error instanceof GatewayError && endsIt.includes(error.code))) return { cause: error };
    connection.destroy();
  }
  return undefined;
}
