// Passes requests below `/port/{n}` on to a server inside the sandbox, streaming both ways.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Agent, type Dispatcher, errors as undiciErrors } from "undici";
import { AppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { answerError } from "../error-answer.ts";
import type { SessionContext } from "../session-context.ts";
import { guardAnswer } from "../stall-guard.ts";
import { requestHeaders, responseHeaders } from "./forwarded-headers.ts";
import { type CallTimeouts, carryGrpcCall, isGrpcCall } from "./grpc-call.ts";
import { describeFailure } from "./port-failure.ts";
import type { PortTarget } from "./port-url.ts";

/** How long a server may think before its first byte. */
const headersTimeoutMs = 300_000;
/** How long an answer or a connection may be silent. */
export const silenceTimeoutMs = 900_000;
const callTimeouts: CallTimeouts = { answerMs: headersTimeoutMs, silenceMs: silenceTimeoutMs, intervalMs: 15_000 };
const responseHeadersMaxBytes = 64 * 1024;
const idleConnectionMs = 4_000;
const inFlightMax = 1_024;
const connectTimeoutMs = 10_000;

/** Methods that may be repeated, and therefore sent over a connection that its server might just be closing. */
const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

export class PortProxy implements AsyncDisposable {
  readonly #session: SessionContext;
  readonly #reusing: Agent;
  readonly #fresh: Agent;
  #inFlight = 0;

  constructor(session: SessionContext) {
    this.#session = session;
    this.#reusing = createAgent(session, 1);
    this.#fresh = createAgent(session, 0);
  }

  handle(request: IncomingMessage, response: ServerResponse, target: PortTarget): void {
    if (this.#inFlight >= inFlightMax) {
      throw new AppError("unavailable", `${inFlightMax} requests to servers inside the sandbox are in flight already.`);
    }
    const hasBody =
      request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
    const mayRepeat = safeMethods.has(request.method!) && !hasBody;
    this.#inFlight += 1;
    response.once("close", () => {
      this.#inFlight -= 1;
    });
    if (isGrpcCall(request)) {
      return carryGrpcCall({ request, response, target, session: this.#session, timeouts: callTimeouts });
    }
    const attempt = (agent: Agent, attemptsLeft: number): void => {
      agent.dispatch(
        {
          origin: `http://127.0.0.1:${target.port}`,
          path: target.path,
          method: request.method as Dispatcher.HttpMethod,
          headers: requestHeaders(request, target.port),
          body: hasBody ? request : null,
        },
        new Relay(request, response, target.port, this.#session, () => {
          if (attemptsLeft === 0) return false;
          attempt(this.#fresh, attemptsLeft - 1);
          return true;
        }),
      );
    };
    attempt(mayRepeat ? this.#reusing : this.#fresh, mayRepeat ? 1 : 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const reason = new AppError("unavailable", "The sandbox is being handed over.");
    await Promise.all([this.#reusing.destroy(reason), this.#fresh.destroy(reason)]);
  }
}

function createAgent({ machine }: SessionContext, pipelining: 0 | 1): Agent {
  return new Agent({
    pipelining,
    allowH2: false,
    headersTimeout: headersTimeoutMs,
    bodyTimeout: silenceTimeoutMs,
    maxHeaderSize: responseHeadersMaxBytes,
    keepAliveTimeout: idleConnectionMs,
    keepAliveMaxTimeout: idleConnectionMs,
    connect: ({ port }, callback) => {
      machine.guest.connect(Number(port), AbortSignal.timeout(connectTimeoutMs)).then(
        // A stream through the guest stands in for a TCP socket: undici uses what both have.
        (stream) => callback(null, stream as Socket),
        (error: Error) => callback(error, null),
      );
    },
  });
}

/** Carries one answer from the server inside to the caller. */
class Relay implements Dispatcher.DispatchHandler {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #port: number;
  readonly #session: SessionContext;
  readonly #repeat: () => boolean;
  readonly #startedAt = performance.now();

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    port: number,
    session: SessionContext,
    repeat: () => boolean,
  ) {
    this.#request = request;
    this.#response = response;
    this.#port = port;
    this.#session = session;
    this.#repeat = repeat;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const stop = (): void => controller.abort(new AppError("unavailable", "The client closed the connection."));
    if (this.#response.destroyed) return stop();
    this.#response.once("close", () => {
      if (!this.#response.writableFinished) stop();
    });
  }

  onResponseStart(controller: Dispatcher.DispatchController, statusCode: number): void {
    if (statusCode === 103) return this.#hint(controller);
    if (statusCode < 200) return;
    const timing = timingOf(this.#request);
    timing.add("proxy", performance.now() - this.#startedAt);
    const raw = (controller.rawHeaders ?? []) as (Buffer | string)[];
    const headers = responseHeaders(raw.map((part) => (typeof part === "string" ? part : part.toString("latin1"))));
    this.#response.writeHead(statusCode, [...headers, "server-timing", timing.header()]);
    this.#response.flushHeaders();
    guardAnswer(this.#response);
    this.#response.on("drain", () => controller.resume());
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#response.write(chunk)) controller.pause();
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    const kept = responseHeaders(Object.entries(trailers ?? {}).flatMap(([name, value]) => [name, String(value)]));
    // They have a place only after a body of no stated length.
    if (kept.length > 0 && !this.#response.hasHeader("content-length")) {
      this.#response.addTrailers(
        Array.from({ length: kept.length / 2 }, (_, at): [string, string] => [kept[2 * at]!, kept[2 * at + 1]!]),
      );
    }
    this.#response.end();
  }

  /** What a page will need, told while the server inside still thinks. */
  #hint(controller: Dispatcher.DispatchController): void {
    const raw = (controller.rawHeaders ?? []) as (Buffer | string)[];
    const texts = raw.map((part) => (typeof part === "string" ? part : part.toString("latin1")));
    const links = texts.filter((_, at) => at % 2 === 1 && texts[at - 1]!.toLowerCase() === "link");
    if (links.length === 0 || this.#response.headersSent) return;
    try {
      this.#response.writeEarlyHints({ link: links });
    } catch {
      // Only links of a certain form may be passed on, and it was only a hint.
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#response.headersSent || this.#response.destroyed) return void this.#response.destroy();
    if (isConnectionLoss(error) && this.#repeat()) return;
    timingOf(this.#request).add("proxy", performance.now() - this.#startedAt);
    const failure = describeFailure(error, this.#port);
    if (failure.code === "internal") this.#session.log.error({ err: error, port: this.#port }, "port request failed");
    answerError(this.#request, this.#response, failure);
  }
}

function isConnectionLoss(error: Error): boolean {
  return (
    error instanceof undiciErrors.SocketError ||
    ("code" in error && (error.code === "ECONNRESET" || error.code === "EPIPE"))
  );
}
