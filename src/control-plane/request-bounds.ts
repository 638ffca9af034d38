// Bounds on what is read of a request: the length of its target, and the time in which its body has to arrive.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { AppError } from "../core/errors.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Runs while the body is read. */
    bodyTimer: NodeJS.Timeout | undefined;
  }
}

export const targetMaxLength = 8_192;
const tooLong = `The path and query have more than ${targetMaxLength} characters.`;

export function boundRequests(app: FastifyInstance, { bodyTimeoutMs }: { bodyTimeoutMs: number }): void {
  app.decorateRequest("bodyTimer", undefined);
  app.addHook("onRequest", (request, _reply, done) => {
    const isLong = (request.raw.url?.length ?? 0) > targetMaxLength;
    done(isLong ? new AppError("target_too_long", tooLong) : undefined);
  });
  app.addHook("preParsing", (request, _reply, payload, done) => {
    if (hasBody(request)) startTimer(request, bodyTimeoutMs);
    done(null, payload);
  });
  // The body has been read by now, or is left to the handler, which bounds it itself.
  app.addHook("preValidation", (request, _reply, done) => {
    clearTimeout(request.bodyTimer);
    done();
  });
  app.addHook("onError", (request, _reply, _error, done) => {
    clearTimeout(request.bodyTimer);
    done();
  });
}

export function hasBody({ raw }: FastifyRequest): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = raw.headers;
  return encoding !== undefined || (length !== undefined && length !== "0");
}

function startTimer(request: FastifyRequest, bodyTimeoutMs: number): void {
  const { raw } = request;
  request.bodyTimer = setTimeout(() => {
    // Whoever reads the body listens; if nobody does, it is not being read.
    if (raw.complete || raw.listenerCount("error") === 0) return;
    const message = `The body did not arrive within ${bodyTimeoutMs / 1_000} seconds.`;
    raw.emit("error", Object.assign(new AppError("request_timeout", message), { statusCode: 408 }));
  }, bodyTimeoutMs);
}
