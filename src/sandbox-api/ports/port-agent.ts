// Connections of `node:http` to servers inside a sandbox: streams through its guest instead of sockets of this machine.
import { Agent, type ClientRequestArgs } from "node:http";
import type { Duplex } from "node:stream";
import type { SessionContext } from "../session-context.ts";

const connectTimeoutMs = 10_000;
/** How long a connection waits for the next request. */
const idleConnectionMs = 4_000;

export class PortAgent extends Agent {
  readonly #session: SessionContext;

  /** `keepAlive`: connections are used again. */
  constructor(session: SessionContext, keepAlive: boolean) {
    super(keepAlive ? { keepAlive, timeout: idleConnectionMs } : {});
    this.#session = session;
  }

  override createConnection(
    { port }: ClientRequestArgs,
    callback: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const { guest } = this.#session.machine;
    // What fails has no stream.
    const fail = callback as (error: Error) => void;
    guest.connect(Number(port), AbortSignal.timeout(connectTimeoutMs)).then((stream) => callback(null, stream), fail);
  }
}
