// The one HTTP app that serves the sandbox API of every instance.
import { Readable } from "node:stream";
import { type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { allowedMethodsOf } from "../contract/allowed-methods.ts";
import { sandboxOperations } from "../contract/operations.ts";
import { AppError, toAppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { timingOf } from "../core/timing.ts";
import { answerError } from "./error-answer.ts";
import { registerFileRoutes } from "./files/file-routes.ts";
import { type Build, registerHealthRoutes } from "./health.ts";
import { registerMcpRoutes } from "./mcp/mcp-routes.ts";
import { registerNetworkRoutes } from "./network/network-routes.ts";
import { registerNotOffered } from "./network/not-offered.ts";
import { registerInputRoutes } from "./processes/input-routes.ts";
import { registerProcessRoutes } from "./processes/process-routes.ts";
import { registerReferenceRoutes } from "./reference/reference-routes.ts";
import { type App, isMultipart } from "./route.ts";
import { registerSearchRoutes } from "./search/search-routes.ts";
import { sessionOf } from "./session-context.ts";
import { guardAnswer } from "./stall-guard.ts";
import { registerTerminalRoutes } from "./terminal/terminal-routes.ts";
import { registerUpgradeRoutes } from "./upgrade/upgrade-routes.ts";
import { registerUploadRoutes } from "./uploads/upload-routes.ts";
import { registerWatchRoutes } from "./watch/watch-routes.ts";

const allowedMethods = allowedMethodsOf(sandboxOperations, { servesHead: true });

const jsonMaxBytes = 2 * 1024 * 1024;
/** Three bytes of a path may be written as nine characters. */
const parameterMaxLength = 16 * 1024;

const commonHeaders = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "Content-Disposition, Content-Range, ETag, Idempotent-Replayed, Server-Timing",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
};

const preflightHeaders = {
  "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE, OPTIONS",
  "access-control-allow-headers":
    "Accept, Authorization, Blaxel-Version, Content-Type, Idempotency-Key, If-Range, Mcp-Method, Mcp-Name, " +
    "Mcp-Protocol-Version, Mcp-Session-Id, Range, " +
    "X-Blaxel-Authorization, X-Blaxel-Preview-Token, X-Blaxel-Workspace",
  "access-control-max-age": "600",
};

export function createApp({ log, build }: { log: Logger; build: Build }): App {
  const app = fastify({
    logger: false,
    exposeHeadRoutes: false,
    bodyLimit: jsonMaxBytes,
    routerOptions: { maxParamLength: parameterMaxLength },
    frameworkErrors: (error, request, reply) => {
      answerError(request.raw, reply.raw, new AppError("invalid_request", error.message, { cause: error }));
    },
  });
  addBodyParsers(app);
  app.addHook("onRequest", async (request, reply) => {
    timingOf(request.raw);
    reply.headers(commonHeaders);
    if (request.method === "OPTIONS") return reply.headers(preflightHeaders).code(204).send();
  });
  app.addHook("preParsing", admitBody);
  app.addHook("onSend", async (request, reply, payload) => {
    reply.header("server-timing", timingOf(request.raw).header());
    if (payload instanceof Readable) guardAnswer(reply.raw);
    if (request.method !== "HEAD" || typeof payload !== "string") return payload;
    reply.header("content-length", Buffer.byteLength(payload));
    return null;
  });
  addErrorAnswers(app, log);
  registerHealthRoutes(app, build);
  registerReferenceRoutes(app);
  registerProcessRoutes(app);
  registerInputRoutes(app);
  registerFileRoutes(app);
  registerSearchRoutes(app);
  registerWatchRoutes(app);
  registerUploadRoutes(app);
  registerNetworkRoutes(app);
  registerNotOffered(app);
  registerUpgradeRoutes(app);
  registerMcpRoutes(app);
  registerTerminalRoutes(app);
  return app;
}

/** A JSON body is held as bytes, as text, as a value and as what is made of the value before it is gone. */
const bodyCopies = 5;

async function admitBody(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { headers } = request;
  const { streamsBody } = request.routeOptions.config as { streamsBody?: boolean };
  if (isMultipart(request) || streamsBody === true) return;
  const isChunked = headers["transfer-encoding"] !== undefined;
  const bytes = isChunked ? request.routeOptions.bodyLimit : Number(headers["content-length"] ?? 0);
  if (bytes > request.routeOptions.bodyLimit) return;
  await sessionOf(request.raw).budget.takeFor(reply.raw, bytes * bodyCopies);
}

/** JSON is parsed, a multipart form is left to its route, everything else is refused with 415. */
function addBodyParsers(app: App): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>(
    /^application\/(?:[\w.-]+\+)?json\b/i,
    { parseAs: "buffer" },
    (_request, body, done) => {
      if (body.length === 0) return done(null, undefined);
      try {
        done(null, JSON.parse(body.toString("utf8")));
      } catch {
        done(new AppError("invalid_request", "The request body is not valid JSON."));
      }
    },
  );
  app.addContentTypeParser(/^multipart\/form-data\b/i, (_request, _payload, done) => done(null));
}

function addErrorAnswers(app: App, log: Logger): void {
  app.setNotFoundHandler((request, reply) => {
    const allowed = allowedMethods(request.raw.url!);
    // A path that a wildcard stands for may name nothing when nothing stands in its place.
    if (allowed.length === 0 || allowed.includes(request.method)) {
      return reply.code(404).send({ error: `There is no ${request.method} at this path.` });
    }
    const methods = allowed.join(", ");
    return reply
      .code(405)
      .header("allow", methods)
      .send({ error: `Only ${methods} are possible at this path.` });
  });
  app.setErrorHandler((error: Error & { statusCode?: number; code?: string }, request, reply) => {
    if (error instanceof AppError && error.code !== "internal") {
      return reply.code(error.status).type("application/json; charset=utf-8").send({ error: error.message });
    }
    const { statusCode } = error;
    if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
      return reply
        .code(statusCode)
        .type("application/json; charset=utf-8")
        .send({ error: describeRefusal(error) });
    }
    log.error({ err: error.cause ?? error, method: request.method, route: request.routeOptions.url }, "request failed");
    return reply
      .code(500)
      .type("application/json; charset=utf-8")
      .send({ error: toAppError(error).message });
  });
}

function describeRefusal(error: Error & { statusCode?: number; code?: string }): string {
  if (error.code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return "The request body is too large for JSON; upload large files as a multipart form with a 'file' part.";
  }
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return "The content type of the request body is not supported; send application/json or multipart/form-data.";
  }
  return error.message;
}
