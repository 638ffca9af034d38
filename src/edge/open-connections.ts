// Ends what lasts longer than its credential: a stream or a tunnel is let in once, and asked about again as long as it is open.
import { setImmediate } from "node:timers/promises";
import type { Logger } from "../core/log.ts";
import { GatewayError, type GatewayErrorCode } from "./gateway-error.ts";

/** How long a revoked credential can still be connected. */
export const recheckIntervalMs = 15_000;

const checksInOneTurn = 50;

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

export class OpenConnections {
  readonly #open = new Map<Connection, Recheck>();
  readonly #log: Logger;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor({ log, intervalMs = recheckIntervalMs }: { log: Logger; intervalMs?: number | undefined }) {
    this.#log = log;
    this.#intervalMs = intervalMs;
  }

  add(connection: Connection, recheck: Recheck): void {
    if (connection.closed) return;
    this.#open.set(connection, recheck);
    connection.once("close", () => this.#open.delete(connection));
    this.#timer ??= setTimeout(() => void this.#recheckAll(), this.#intervalMs).unref();
  }

  async #recheckAll(): Promise<void> {
    let checked = 0;
    let unchecked = 0;
    let reason: unknown;
    for (const [connection, recheck] of this.#open) {
      // Remembered rows answer without leaving this turn of the event loop: others get theirs in between.
      if (++checked % checksInOneTurn === 0) await setImmediate();
      try {
        await recheck();
      } catch (error) {
        if (error instanceof GatewayError && endsIt.includes(error.code)) {
          connection.destroy();
        } else {
          unchecked += 1;
          reason = error;
        }
      }
    }
    if (unchecked > 0) this.#log.warn({ err: reason, unchecked }, "open connections could not be checked again");
    this.#timer =
      this.#open.size === 0 ? undefined : setTimeout(() => void this.#recheckAll(), this.#intervalMs).unref();
  }
}
