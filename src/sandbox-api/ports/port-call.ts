// Carries one request to a server inside the sandbox and its answer back: the head goes on at once, bodies as they come, each at its own pace.
import { type ClientRequest, type IncomingMessage, type ServerResponse, request as sendRequest } from "node:http";
import { AppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { answerError } from "../error-answer.ts";
import type { SessionContext } from "../session-context.ts";
import { guardAnswer } from "../stall-guard.ts";
import {
  answerHeaders,
  type RawHeaders,
  requestHeaders,
  requestTrailers,
  responseTrailers,
} from "./forwarded-headers.ts";
import type { PortAgent } from "./port-agent.ts";
import { describeFailure } from "./port-failure.ts";
import type { PortTarget } from "./port-url.ts";

const headMaxBytes = 64 * 1024;
/** Interim answers of one request; only early hints are passed on. */
const interimMax = 64;
const hintsMax = 8;
/** How long a server may take to ask for a body that its caller offers; many never do and want it all the same. */
const continueMs = 1_000;

/** Some servers insist on a length even of nothing. */
const bodyMethods = new Set(["POST", "PUT", "PATCH"]);

export type CallTimeouts = {
  /** From the end of the request to the first byte of the answer. */
  answerMs: number;
  /** Without a byte of the request or the answer. */
  silenceMs: number;
  intervalMs: number;
};

export type PortCallOptions = {
  request: IncomingMessage;
  response: ServerResponse;
  target: PortTarget;
  session: SessionContext;
  timeouts: CallTimeouts;
  /** Makes a connection for each request. */
  fresh: PortAgent;
  /** Has connections that wait; only for what may be sent a second time when one of them turns out to be closing. */
  reusing: PortAgent | undefined;
};

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
}

export class PortCall {
  readonly #options: PortCallOptions;
  readonly #headers: RawHeaders;
  readonly #startedAt = performance.now();
  #outgoing: ClientRequest | undefined;
  #answer: IncomingMessage | undefined;
  #interims = 0;
  #carriedBytes = 0;
  #movedAt = performance.now();
  #isOver = false;
  #isBodyCarried = false;

  /** Throws when the request cannot be passed on. */
  constructor(options: PortCallOptions) {
    const { request, target } = options;
    this.#options = options;
    this.#headers = requestHeaders(request, target.port);
    if (request.headers["transfer-encoding"] !== undefined) this.#headers.push("transfer-encoding", "chunked");
    if (!hasBody(request) && bodyMethods.has(request.method!)) this.#headers.push("content-length", "0");
    if (this.#isOffered) this.#headers.push("expect", "100-continue");
  }

  begin(): void {
    const { response, session, timeouts, reusing, fresh } = this.#options;
    const timer = setInterval(() => this.#endSilence(), timeouts.intervalMs).unref();
    const onEnded = (): void => this.#fail(session.ended.reason as Error);
    session.ended.addEventListener("abort", onEnded, { once: true });
    response.once("close", () => {
      clearInterval(timer);
      session.ended.removeEventListener("abort", onEnded);
      this.#finish();
    });
    if (response.destroyed) return;
    this.#send(reusing ?? fresh);
  }

  /** The caller waits to be asked for the body. */
  get #isOffered(): boolean {
    const { request } = this.#options;
    return hasBody(request) && /^100-continue$/i.test(request.headers.expect ?? "");
  }

  #send(agent: PortAgent): void {
    const { request, target, reusing } = this.#options;
    let outgoing: ClientRequest;
    try {
      outgoing = sendRequest({
        agent,
        host: "127.0.0.1",
        port: target.port,
        method: request.method,
        path: target.path,
        headers: [...this.#headers, "connection", agent === reusing ? "keep-alive" : "close"],
        setHost: false,
        setDefaultHeaders: false,
        maxHeaderSize: headMaxBytes,
      });
    } catch (cause) {
      return this.#fail(new AppError("invalid_request", "The request cannot be passed on.", { cause }));
    }
    this.#outgoing = outgoing;
    outgoing.on("information", ({ statusCode, rawHeaders }) => this.#pass(statusCode, rawHeaders));
    outgoing.once("response", (answer) => this.#carryAnswer(answer));
    outgoing.on("error", (error) => {
      // What comes behind a whole answer is nobody's.
      if (outgoing !== this.#outgoing || this.#answer?.complete === true) return;
      const isLost = outgoing.reusedSocket && this.#interims === 0 && this.#answer === undefined;
      if (isLost && !this.#isOver) this.#send(this.#options.fresh);
      else this.#fail(error);
    });
    outgoing.once("close", () => {
      if (outgoing === this.#outgoing && this.#answer === undefined) this.#fail(brokenOff());
    });
    if (!hasBody(request)) return void outgoing.end();
    outgoing.flushHeaders();
    if (this.#isOffered && request.readableLength === 0) this.#awaitDemand(outgoing);
    else this.#carryBody(outgoing);
  }

  /** To begin with reading is what asks the caller for the body. */
  #awaitDemand(outgoing: ClientRequest): void {
    const carry = (): void => this.#carryBody(outgoing);
    const timer = setTimeout(carry, continueMs);
    outgoing.once("continue", carry);
    this.#options.response.once("close", () => clearTimeout(timer));
  }

  #carryBody(outgoing: ClientRequest): void {
    if (this.#isBodyCarried || this.#isOver) return;
    this.#isBodyCarried = true;
    const { request } = this.#options;
    request.pipe(outgoing, { end: false });
    request.once("end", () => {
      if (this.#isOver || outgoing.destroyed) return;
      if (request.rawTrailers.length > 0) outgoing.addTrailers(requestTrailers(request.rawTrailers));
      outgoing.end();
    });
  }

  #carryAnswer(answer: IncomingMessage): void {
    const { request, response } = this.#options;
    this.#answer = answer;
    if (this.#isOver) return void answer.destroy();
    answer.once("end", () => this.#endAnswer(answer));
    answer.once("close", () => {
      if (!answer.complete) this.#fail(brokenOff());
    });
    answer.on("error", () => undefined);
    try {
      const headers = answerHeaders(answer.statusCode!, answer.rawHeaders);
      const timing = timingOf(request);
      timing.add("proxy", performance.now() - this.#startedAt);
      response.writeHead(answer.statusCode!, [...headers, "server-timing", timing.header()]);
    } catch (error) {
      return this.#fail(error as Error);
    }
    response.flushHeaders();
    guardAnswer(response);
    answer.pipe(response, { end: false });
  }

  #endAnswer(answer: IncomingMessage): void {
    const { response } = this.#options;
    if (this.#isOver || !answer.complete) return;
    try {
      // Those behind a body of a stated length have no place.
      response.addTrailers(responseTrailers(answer.rawTrailers));
    } catch (error) {
      return this.#fail(error as Error);
    }
    response.end();
    this.#finish();
  }

  /** What a page will need, told while the server inside still thinks. */
  #pass(status: number, raw: RawHeaders): void {
    const { response } = this.#options;
    this.#interims += 1;
    if (status === 101) return this.#fail(brokenOff());
    if (this.#interims > interimMax) {
      return this.#fail(new AppError("upstream_failed", "it announced its answer too often"));
    }
    if (status !== 103 || this.#interims > hintsMax || response.headersSent || response.destroyed) return;
    const links = raw.filter((_, at) => at % 2 === 1 && raw[at - 1]!.toLowerCase() === "link");
    if (links.length === 0) return;
    try {
      response.writeEarlyHints({ link: links });
    } catch {
      // Only links of a certain form may be passed on, and it was only a hint.
    }
  }

  #fail(error: Error): void {
    const { request, response, target, session } = this.#options;
    if (this.#isOver) return;
    this.#finish();
    if (response.headersSent || response.destroyed) return void response.destroy();
    timingOf(request).add("proxy", performance.now() - this.#startedAt);
    const failure = describeFailure(error, target.port);
    if (failure.code === "internal") session.log.error({ err: error, port: target.port }, "port request failed");
    answerError(request, response, failure);
  }

  /** Nothing more is sent to the server; what the caller still sends is thrown away, so that the answer is seen. */
  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { request } = this.#options;
    const outgoing = this.#outgoing;
    if (this.#isBodyCarried) {
      request.unpipe(outgoing);
      request.resume();
    }
    // A connection that can be used again is left to its agent.
    const isWhole = this.#answer?.readableEnded === true && outgoing?.writableEnded === true;
    if (!isWhole) outgoing?.destroy();
  }

  #endSilence(): void {
    const { request, response, timeouts, target } = this.#options;
    const carried = bytesOf(this.#outgoing?.socket) + bytesOf(response.socket);
    if (carried !== this.#carriedBytes) {
      this.#carriedBytes = carried;
      this.#movedAt = performance.now();
    }
    const awaitsAnswer = request.complete && this.#answer === undefined;
    if (performance.now() - this.#movedAt < (awaitsAnswer ? timeouts.answerMs : timeouts.silenceMs)) return;
    this.#fail(new AppError("timeout", `The server on port ${target.port} did not answer in time.`));
  }
}

function brokenOff(): AppError {
  return new AppError("upstream_failed", "it broke HTTP or its answer off");
}

function bytesOf(socket: IncomingMessage["socket"] | null | undefined): number {
  return (socket?.bytesRead ?? 0) + (socket?.bytesWritten ?? 0);
}
