// The Model Context Protocol over HTTP; whatever is wrong with a message is said as JSON-RPC says it.
import { callMcp, mcpBatchMax, mcpBodyMaxBytes } from "../../contract/sandbox-api/mcp.ts";
import { AppError } from "../../core/errors.ts";
import { closeSignal } from "../client-gone.ts";
import { type App, type Call, route } from "../route.ts";
import { answerMessage, protocolHeaders } from "./exchange.ts";
import type { ToolCall } from "./tool.ts";

const parseError = -32_700;
const invalidRequest = -32_600;
const serverError = -32_000;

export function registerMcpRoutes(app: App): void {
  app.register(async (own) => {
    own.removeAllContentTypeParsers();
    own.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    own.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
      const failed = error instanceof AppError && error.code !== "internal" ? error : undefined;
      const status = failed?.status ?? error.statusCode ?? 500;
      // What is nobody's fault out there belongs in the log, which the app's own handler writes.
      if (status >= 500 && failed === undefined) throw error;
      return reply.code(status).type(jsonType).send(rpcError(serverError, error.message));
    });
    route(own, callMcp, answer, { bodyMaxBytes: mcpBodyMaxBytes });
  });
}

const jsonType = "application/json; charset=utf-8";

async function answer({ request, reply, session, timing }: Call<typeof callMcp>): Promise<unknown> {
  const refuse = (status: number, code: number, message: string) =>
    reply.code(status).type(jsonType).send(rpcError(code, message));
  if (!/^application\/json\s*(?:;|$)/i.test(request.headers["content-type"] ?? "")) {
    return refuse(415, serverError, "The content type of a message is application/json.");
  }
  const body = parse(request.body);
  if (body === undefined) return refuse(400, parseError, "The message is not valid JSON.");
  const headers = protocolHeaders(request.headers);
  const call: ToolCall = {
    session,
    signal: closeSignal(reply.raw, session),
    leavingCancels: false,
    reserve: (bytes) => session.budget.takeFor(reply.raw, bytes),
  };
  const exchange = (message: unknown) => timing.measure("guest", () => answerMessage({ message, headers, call }));
  if (!Array.isArray(body)) {
    const response = await exchange(body);
    const text = await response.text();
    reply.code(response.status);
    return text === "" ? reply.send() : reply.type(jsonType).send(text);
  }
  if (body.length === 0 || body.length > mcpBatchMax) {
    return refuse(400, invalidRequest, `An array of messages has from 1 to ${mcpBatchMax} of them.`);
  }
  const answers: string[] = [];
  for (const message of body) answers.push(await (await exchange(message)).text());
  const told = answers.filter((text) => text !== "");
  return told.length === 0 ? reply.code(202).send() : reply.type(jsonType).send(`[${told.join(",")}]`);
}

/** Undefined when it is no JSON, which no JSON stands for. */
function parse(body: unknown): unknown {
  if (!Buffer.isBuffer(body)) return undefined;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

function rpcError(code: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } });
}
