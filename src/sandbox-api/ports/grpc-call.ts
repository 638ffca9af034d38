// Carries a gRPC call below `/port/{n}` to a server inside, which speaks HTTP/2 and nothing else, over a connection of its own.
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type ClientSessionOptions,
  connect,
  constants,
  type IncomingHttpHeaders,
} from "node:http2";
import type { Duplex } from "node:stream";
import { AppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { answerError } from "../error-answer.ts";
import type { SessionContext } from "../session-context.ts";
import { guardAnswer } from "../stall-guard.ts";
import { requestHeaders, responseHeaders, responseTrailers } from "./forwarded-headers.ts";
import type { CallTimeouts } from "./port-call.ts";
import { describeFailure } from "./port-failure.ts";
import type { PortTarget } from "./port-url.ts";

const { NGHTTP2_CANCEL, NGHTTP2_FLAG_END_STREAM } = constants;

const connectTimeoutMs = 10_000;
/** How long a server that was told of a cancelled call keeps its connection. */
const farewellMs = 1_000;

/** What a server inside may send before the connection to it ends. */
const sessionOptions: ClientSessionOptions = {
  settings: { enablePush: false, maxHeaderListSize: 64 * 1024, initialWindowSize: 256 * 1024 },
  maxHeaderListPairs: 200,
  maxSendHeaderBlockLength: 128 * 1024,
  maxSessionMemory: 4,
  maxSettings: 32,
  maxReservedRemoteStreams: 1,
};
const sessionWindowBytes = 1024 * 1024;

export type GrpcCallOptions = {
  request: IncomingMessage;
  response: ServerResponse;
  target: PortTarget;
  session: SessionContext;
  timeouts: CallTimeouts;
};

/** Only who speaks HTTP/2 can mean it: what comes by HTTP/1 goes on by HTTP/1. gRPC-Web, which does, is something else. */
export function isGrpcCall({ method, headers, socket }: IncomingMessage): boolean {
  const speaksHttp2 = "alpnProtocol" in socket && socket.alpnProtocol === "h2";
  return speaksHttp2 && method === "POST" && /^application\/grpc(?:[+;\s]|$)/i.test(headers["content-type"] ?? "");
}

export function carryGrpcCall(options: GrpcCallOptions): void {
  const { request, response, target, session } = options;
  const startedAt = performance.now();
  const fail = (error: Error): void => {
    if (response.headersSent || response.destroyed) return void response.destroy();
    timingOf(request).add("proxy", performance.now() - startedAt);
    const failure = describeFailure(error, target.port);
    if (failure.code === "internal") session.log.error({ err: error, port: target.port }, "gRPC call failed");
    answerError(request, response, failure);
  };
  openCall(options).then((opened) => new GrpcCall(options, { ...opened, startedAt, fail }).begin(), fail);
}

async function openCall({ request, response, target, session }: GrpcCallOptions) {
  const headers = callHeaders(request, target);
  const left = new AbortController();
  const onLeft = (): void => left.abort(new AppError("unavailable", "The client closed the connection."));
  response.once("close", onLeft);
  const signal = AbortSignal.any([left.signal, session.ended, AbortSignal.timeout(connectTimeoutMs)]);
  const tunnel = await session.machine.guest.connect(target.port, signal);
  response.off("close", onLeft);
  tunnel.on("error", () => tunnel.destroy());
  const client = openSession(tunnel, target.port);
  try {
    if (response.closed) throw left.signal.reason;
    // A stream that waits for trailers is not ended by being closed: half a request must not look like a whole one.
    const stream = client.request(headers, { endStream: false, waitForTrailers: true });
    stream.once("wantTrailers", () => stream.sendTrailers({}));
    return { client, stream, tunnel };
  } catch (cause) {
    client.destroy();
    throw new AppError("invalid_request", "The headers of the call cannot be passed on.", { cause });
  }
}

function openSession(tunnel: Duplex, port: number): ClientHttp2Session {
  const client = connect(`http://127.0.0.1:${port}`, { ...sessionOptions, createConnection: () => tunnel });
  // The stream of the call is told the same.
  client.on("error", () => undefined);
  client.once("connect", () => {
    if (!client.destroyed) client.setLocalWindowSize(sessionWindowBytes);
  });
  return client;
}

function callHeaders(request: IncomingMessage, { port, path }: PortTarget): Record<string, string | string[]> {
  const fields: Record<string, string | string[]> = {
    ":method": "POST",
    ":scheme": "http",
    ":path": path,
    ":authority": request.headers.host ?? `127.0.0.1:${port}`,
    te: "trailers",
  };
  const raw = requestHeaders(request, port);
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!.toLowerCase();
    if (name === "host" || name === "content-length") continue;
    const before = fields[name];
    fields[name] = before === undefined ? raw[index + 1]! : [before, raw[index + 1]!].flat();
  }
  return fields;
}

type Opened = {
  stream: ClientHttp2Stream;
  client: ClientHttp2Session;
  tunnel: Duplex;
  startedAt: number;
  fail(error: Error): void;
};

class GrpcCall {
  readonly #options: GrpcCallOptions;
  readonly #opened: Opened;
  #failure: Error | undefined;
  #trailers: string[] = [];
  /** The server has said that nothing more comes: whatever it does to the stream then takes nothing back. */
  #isWhole = false;
  #movedAt = performance.now();

  constructor(options: GrpcCallOptions, opened: Opened) {
    this.#options = options;
    this.#opened = opened;
  }

  begin(): void {
    const { request, response, session } = this.#options;
    const { stream, client, tunnel } = this.#opened;
    const timer = setInterval(() => this.#endSilence(), this.#options.timeouts.intervalMs).unref();
    const onEnded = (): void => void stream.destroy(session.ended.reason as Error);
    session.ended.addEventListener("abort", onEnded, { once: true });
    stream.once("close", () => {
      clearInterval(timer);
      session.ended.removeEventListener("abort", onEnded);
      client.destroy();
      if (this.#isWhole && stream.readableLength === 0) this.#finish();
      if (!response.writableEnded) this.#opened.fail(this.#failure ?? brokenOff());
    });
    stream.on("error", (error) => {
      this.#failure ??= error;
    });
    client.once("goaway", (_code: number, lastStreamId: number) => {
      if (stream.id !== undefined && stream.id > lastStreamId) stream.destroy(brokenOff());
    });
    client.once("close", () => stream.destroy());
    // What came with the end is told first.
    tunnel.once("end", () => setImmediate(() => this.#isWhole || stream.destroy(brokenOff())));
    response.once("close", () => this.#cancel());
    this.#carryAnswer();
    request.on("data", () => this.#moved());
    request.pipe(stream);
    if (response.closed) this.#cancel();
  }

  #carryAnswer(): void {
    const { response } = this.#options;
    const { stream } = this.#opened;
    stream.once("response", (_headers, flags, raw: string[]) => {
      this.#moved();
      this.#isWhole = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
      try {
        this.#answer(raw);
      } catch (error) {
        stream.destroy(error as Error);
      }
    });
    stream.on("data", (chunk: Buffer) => {
      this.#moved();
      if (!response.write(chunk)) stream.pause();
    });
    response.on("drain", () => stream.resume());
    stream.once("trailers", (headers: IncomingHttpHeaders) => {
      this.#isWhole = true;
      this.#trailers = Object.entries(headers).flatMap(([name, value]) => [name, String(value)]);
    });
    stream.once("end", () => {
      // Also told of one that broke off.
      if (this.#isWhole || stream.rstCode === 0) this.#finish();
    });
  }

  #finish(): void {
    const { response } = this.#options;
    if (!response.headersSent || response.writableEnded || response.destroyed) return;
    try {
      response.addTrailers(responseTrailers(this.#trailers));
      response.end();
    } catch (error) {
      this.#failure ??= error as Error;
      response.destroy();
    }
  }

  #answer(raw: readonly string[]): void {
    const { request, response } = this.#options;
    const status = Number(raw[raw.indexOf(":status") + 1]);
    if (!(status >= 200 && status <= 599)) throw new AppError("upstream_failed", "its status is none of HTTP");
    const named: string[] = [];
    for (let index = 0; index < raw.length; index += 2) {
      // Trailers have a place only after a body of no stated length.
      if (raw[index] !== ":status" && raw[index] !== "content-length") named.push(raw[index]!, raw[index + 1]!);
    }
    const kept = responseHeaders(named);
    // An answer of nothing but headers has to stay one: its status is in them.
    if (this.#isWhole) kept.push("content-length", "0");
    const timing = timingOf(request);
    timing.add("proxy", performance.now() - this.#opened.startedAt);
    response.writeHead(status, [...kept, "server-timing", timing.header()]);
    response.flushHeaders();
    guardAnswer(response);
  }

  #cancel(): void {
    const { response } = this.#options;
    const { stream, client } = this.#opened;
    if (stream.closed || response.writableFinished) return;
    stream.close(NGHTTP2_CANCEL);
    setTimeout(() => client.destroy(), farewellMs).unref();
  }

  #moved(): void {
    this.#movedAt = performance.now();
  }

  #endSilence(): void {
    const { request, response, timeouts, target } = this.#options;
    const awaitsAnswer = request.complete && !response.headersSent;
    const limitMs = awaitsAnswer ? timeouts.answerMs : timeouts.silenceMs;
    if (performance.now() - this.#movedAt < limitMs) return;
    this.#opened.stream.destroy(new AppError("timeout", `The server on port ${target.port} did not answer in time.`));
  }
}

function brokenOff(): AppError {
  return new AppError("upstream_failed", "it broke the call off");
}
