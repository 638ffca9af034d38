// Passes requests below `/port/{n}` on to servers inside the sandbox: so many at once, by HTTP/1 or as gRPC calls.
import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../core/errors.ts";
import type { SessionContext } from "../session-context.ts";
import { carryGrpcCall, isGrpcCall } from "./grpc-call.ts";
import { PortAgent } from "./port-agent.ts";
import { type CallTimeouts, hasBody, PortCall } from "./port-call.ts";
import type { PortTarget } from "./port-url.ts";

/** How long an answer or a connection may be silent. */
export const silenceTimeoutMs = 900_000;
/** A server may think for five minutes before its first byte. */
const timeouts: CallTimeouts = { answerMs: 300_000, silenceMs: silenceTimeoutMs, intervalMs: 15_000 };
const inFlightMax = 1_024;

/** Methods that may be repeated, and therefore sent over a connection that its server might just be closing. */
const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

export class PortProxy implements Disposable {
  readonly #session: SessionContext;
  readonly #reusing: PortAgent;
  readonly #fresh: PortAgent;
  #inFlight = 0;

  constructor(session: SessionContext) {
    this.#session = session;
    this.#reusing = new PortAgent(session, true);
    this.#fresh = new PortAgent(session, false);
  }

  handle(request: IncomingMessage, response: ServerResponse, target: PortTarget): void {
    if (this.#inFlight >= inFlightMax) {
      throw new AppError("unavailable", `${inFlightMax} requests to servers inside the sandbox are in flight already.`);
    }
    if (response.closed) return;
    this.#inFlight += 1;
    response.once("close", () => {
      this.#inFlight -= 1;
    });
    const common = { request, response, target, session: this.#session, timeouts };
    if (isGrpcCall(request)) return carryGrpcCall(common);
    const reusing = safeMethods.has(request.method!) && !hasBody(request) ? this.#reusing : undefined;
    new PortCall({ ...common, fresh: this.#fresh, reusing }).begin();
  }

  /** Requests in flight end with the session. */
  [Symbol.dispose](): void {
    this.#reusing.destroy();
    this.#fresh.destroy();
  }
}
