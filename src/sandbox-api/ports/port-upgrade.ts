// WebSocket connections below `/port/{n}`: a raw tunnel once the server inside has agreed.
import type { IncomingMessage } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { exposureOf } from "../../contract/exposure.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { countActivity } from "../activity.ts";
import { refuseUpgrade } from "../error-answer.ts";
import type { SessionContext } from "../session-context.ts";
import { requestHeaders, responseHeaders } from "./forwarded-headers.ts";
import { describeFailure } from "./port-failure.ts";
import { silenceTimeoutMs } from "./port-proxy.ts";
import { parsePortUrl } from "./port-url.ts";
import { type ResponseHead, readResponseHead } from "./response-head.ts";
import { carryWebSocket } from "./websocket-tunnel.ts";

const agreementTimeoutMs = 30_000;
/** How long the body of a refusal may take. */
const refusalTimeoutMs = 60_000;

export function upgradePort(request: IncomingMessage, socket: Duplex, head: Buffer, session: SessionContext): void {
  socket.on("error", () => socket.destroy());
  tunnel(request, socket, head, session).catch((error: unknown) => {
    const target = /^\/port\/(\d+)/.exec(request.url!);
    refuseUpgrade(request, socket, describeFailure(toAppError(error), Number(target?.[1] ?? 0)));
  });
}

async function tunnel(request: IncomingMessage, socket: Duplex, head: Buffer, session: SessionContext): Promise<void> {
  const startedAt = performance.now();
  const target = parsePortUrl(request.url!);
  if (target === undefined) throw new AppError("not_found", "There is no WebSocket at this path.");
  if (request.method !== "GET" || request.headers.upgrade?.toLowerCase() !== "websocket") {
    throw new AppError("invalid_request", "Only connections to WebSocket can be upgraded.");
  }
  const headers = requestHeaders(request, target.port);
  const deadline = AbortSignal.timeout(agreementTimeoutMs);
  const upstream = await session.machine.guest.connect(target.port, deadline);
  // A caller who has left does not tell so again.
  if (socket.destroyed) return void upstream.destroy();
  const close = (): void => {
    upstream.destroy();
    socket.destroy();
  };
  upstream.on("error", close);
  upstream.once("close", close);
  socket.once("close", close);
  session.ended.addEventListener("abort", close, { once: true });
  upstream.once("close", () => session.ended.removeEventListener("abort", close));
  upstream.write(
    encodeHead(`GET ${target.path} HTTP/1.1`, [...headers, "connection", "Upgrade", "upgrade", "websocket"]),
  );
  const answer = await readResponseHead(upstream, deadline);
  const timing = timingOf(request);
  timing.add("proxy", performance.now() - startedAt);
  const filter = exposureOf(request)?.filterAnswer;
  socket.write(encodeAnswer(answer, timing.header(), filter));
  if (answer.status !== 101) {
    if (answer.rest.length > 0) socket.write(answer.rest);
    const timer = setTimeout(close, refusalTimeoutMs);
    upstream.once("close", () => clearTimeout(timer));
    return void upstream.pipe(socket);
  }
  countActivity(request, "reports");
  const { machine } = session;
  carryWebSocket({ socket, upstream, machine, fromCaller: head, fromServer: answer.rest, silenceTimeoutMs });
}

/** A refusal is passed on as it came, with its framing, on a connection that ends with it. */
function encodeAnswer(
  { status, headers }: ResponseHead,
  timing: string,
  filter?: (headers: string[]) => string[],
): string {
  const kept = filter === undefined ? responseHeaders(headers) : filter(responseHeaders(headers));
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}`;
  if (status === 101) {
    return encodeHead(line, [...kept, "connection", "Upgrade", "upgrade", "websocket", "server-timing", timing]);
  }
  const isChunked = headers.some((part, index) => {
    return index % 2 === 0 && part.toLowerCase() === "transfer-encoding" && /\bchunked\b/i.test(headers[index + 1]!);
  });
  const framing = isChunked ? ["transfer-encoding", "chunked"] : [];
  return encodeHead(line, [...kept, ...framing, "connection", "close", "server-timing", timing]);
}

function encodeHead(line: string, headers: readonly string[]): string {
  let text = `${line}\r\n`;
  for (let index = 0; index < headers.length; index += 2) text += `${headers[index]}: ${headers[index + 1]}\r\n`;
  return `${text}\r\n`;
}
