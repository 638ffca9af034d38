// The WebSocket of terminals, from the request that asks for one to the shell behind it.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { Compile } from "typebox/compile";
import type { WebSocketServer } from "ws";
import { describeProblems } from "../../contract/input.ts";
import { TerminalQuery, terminalFrameMaxBytes } from "../../contract/sandbox-api/terminal.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import { timingOf } from "../../core/timing.ts";
import { countActivity } from "../activity.ts";
import { refuseUpgrade } from "../error-answer.ts";
import type { SessionContext } from "../session-context.ts";
import { readUrlValues } from "../url-values.ts";

const validator = Compile(TerminalQuery);

let loading: Promise<WebSocketServer> | undefined;

/** One for all sandboxes: it holds nothing of a connection. Messages are not compressed, so their size is what they cost. */
function loadServer(): Promise<WebSocketServer> {
  loading ??= import("ws").then(({ WebSocketServer }) => {
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: terminalFrameMaxBytes,
    });
    server.on("headers", (headers, request) => headers.push(`server-timing: ${timingOf(request).header()}`));
    server.on("wsClientError", (error, socket, request) => {
      refuseUpgrade(request, socket, new AppError("invalid_request", error.message, { cause: error }));
    });
    return server;
  });
  return loading;
}

export function isTerminalUrl(url: string): boolean {
  return /^\/terminal\/ws(?:\?|$)/.test(url);
}

export function upgradeTerminal(request: IncomingMessage, socket: Duplex, head: Buffer, session: SessionContext): void {
  socket.on("error", () => socket.destroy());
  open(request, socket, head, session).catch((error: unknown) => {
    const failure = toAppError(error);
    if (failure.code === "internal") session.log.error({ err: error }, "terminal failed");
    refuseUpgrade(request, socket, failure);
  });
}

async function open(request: IncomingMessage, socket: Duplex, head: Buffer, session: SessionContext): Promise<void> {
  if (request.method !== "GET" || request.headers.upgrade?.toLowerCase() !== "websocket") {
    throw new AppError("invalid_request", "Only connections to WebSocket can be upgraded.");
  }
  const query = readQuery(request.url!);
  const server = await loadServer();
  const terminal = await timingOf(request).measure("guest", () => session.terminals.open(query));
  if (socket.destroyed) return;
  // From here to the connection nothing else happens.
  session.terminals.checkRoom();
  terminal.checkRoom();
  countActivity(request, "reports");
  server.handleUpgrade(request, socket, head, (client) => {
    terminal.connect(client, { columns: query.cols, rows: query.rows });
  });
}

function readQuery(url: string): TerminalQuery {
  const parameters = Object.fromEntries(new URL(url, "http://sandbox").searchParams);
  const query: unknown = readUrlValues(TerminalQuery, parameters);
  if (validator.Check(query)) return query;
  throw new AppError("invalid_request", describeProblems(validator.Errors(query), TerminalQuery, "query"));
}
