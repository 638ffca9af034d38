// The process operations over HTTP.
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import {
  getProcess,
  getProcessLogs,
  killProcess,
  listProcesses,
  type ProcessRequest,
  startProcess,
  stopProcess,
  streamProcessLogs,
} from "../../contract/sandbox-api/process.ts";
import { AppError } from "../../core/errors.ts";
import { countActivity } from "../activity.ts";
import { closeSignal } from "../client-gone.ts";
import type { Machine } from "../machine.ts";
import { type App, route } from "../route.ts";
import type { SessionContext } from "../session-context.ts";
import { EventFramer, event, followOutput, keepalive, LineFramer } from "./output-stream.ts";
import { inlineTailBytes, logsTailBytes, readTail, tailCost } from "./output-tail.ts";
import type { Process } from "./process.ts";
import { processAnswer, processAnswerWithTail } from "./process-answer.ts";
import { describeStartFailure, toStartRequest } from "./start-request.ts";

const execKeepaliveMs = 5_000;
const logsKeepaliveMs = 30_000;

export function registerProcessRoutes(app: App): void {
  route(app, startProcess, async ({ body, session, request, reply, timing }) => {
    const start = toStartRequest(body, session.machine);
    const streams = request.headers.accept?.includes("text/event-stream") ?? false;
    const process = await timing
      .measure("guest", () => session.processes.start(start))
      .catch(async (error: unknown) => {
        throw await describeStartFailure(error, start.workingDir, session.machine);
      });
    const gone = closeSignal(reply.raw, session);
    countActivity(request.raw, "holds");
    if (streams) return sendStream(reply, "application/x-ndjson", execEvents(process, body, gone));
    if (body.waitForCompletion !== true) return processAnswer(process, undefined);
    await timing.measure("guest", () => waitForEnd(process, body, gone));
    const cost = tailCost(process.journal, logsTailBytes);
    // What has run must be answered: when memory is short with less of its output.
    if (!session.budget.hasFree(cost)) return processAnswerWithTail(process, inlineTailBytes);
    await session.budget.takeFor(reply.raw, cost);
    return processAnswerWithTail(process, logsTailBytes);
  });

  route(app, listProcesses, ({ session }) =>
    session.processes.list().map((process) => processAnswer(process, undefined)),
  );

  route(app, getProcess, async ({ params, session }) => {
    return processAnswerWithTail(session.processes.get(params.identifier), inlineTailBytes);
  });

  route(app, getProcessLogs, async ({ params, session, reply }) => {
    const process = session.processes.get(params.identifier);
    await session.budget.takeFor(reply.raw, tailCost(process.journal, logsTailBytes));
    return readTail(process.journal, logsTailBytes, process.record.name);
  });

  route(app, streamProcessLogs, ({ params, session, request, reply }) => {
    const process = session.processes.get(params.identifier);
    const type = "text/plain; charset=utf-8";
    if (request.method === "HEAD") return reply.type(type).send();
    countActivity(request.raw, "reports");
    return sendStream(reply, type, logLines(process, session.machine, closeSignal(reply.raw, session)));
  });

  route(app, stopProcess, async ({ params, session, timing }) => {
    await timing.measure("guest", () => endProcess(session, params.identifier, "stop"));
    return { message: "Process stopped successfully" };
  });

  route(app, killProcess, async ({ params, session, timing }) => {
    await timing.measure("guest", () => endProcess(session, params.identifier, "kill"));
    return { message: "Process killed successfully" };
  });
}

/** The head goes out at once: who follows a process that says nothing must not wait for its first line to learn that they do. */
function sendStream(reply: FastifyReply, type: string, chunks: AsyncIterable<Buffer | string>): FastifyReply {
  const body = async function* (): AsyncGenerator<Buffer | string> {
    reply.raw.flushHeaders();
    yield* chunks;
  };
  return reply
    .type(type)
    .header("x-accel-buffering", "no")
    .send(Readable.from(body(), { objectMode: false }));
}

async function endProcess({ processes }: SessionContext, identifier: string, by: "stop" | "kill"): Promise<void> {
  await processes.get(identifier).end(by);
}

/** Without `keepAlive` the timeout bounds the waiting alone and the process keeps running. */
async function waitForEnd(process: Process, { keepAlive, timeout }: ProcessRequest, gone: AbortSignal): Promise<void> {
  const isBounded = keepAlive !== true && timeout !== undefined && timeout > 0;
  if (!isBounded) return process.waitForEnd(gone);
  const deadline = AbortSignal.timeout(timeout * 1_000);
  try {
    await process.waitForEnd(AbortSignal.any([gone, deadline]));
  } catch (error) {
    if (!deadline.aborted) throw error;
    throw new AppError("unprocessable", `process timed out after ${timeout} seconds`, { cause: error });
  }
}

async function* execEvents(process: Process, request: ProcessRequest, gone: AbortSignal): AsyncGenerator<string> {
  const framer = new EventFramer();
  const stop = new AbortController();
  const signal = AbortSignal.any([gone, stop.signal]);
  const wait = waitForEnd(process, request, gone).then(
    () => undefined,
    (error: unknown) => {
      stop.abort();
      return error;
    },
  );
  for await (const item of followOutput(process, { keepaliveMs: execKeepaliveMs, signal, paced: true })) {
    yield item === keepalive ? event("keepalive", "") : framer.item(item);
  }
  if (gone.aborted) return;
  yield framer.end();
  const failure = await wait;
  if (failure !== undefined) {
    yield event("error", failure instanceof AppError ? failure.message : "The process could not be followed.");
    return;
  }
  yield event("result", JSON.stringify(await processAnswerWithTail(process, inlineTailBytes)));
}

async function* logLines(process: Process, machine: Machine, gone: AbortSignal): AsyncGenerator<Buffer> {
  const framer = new LineFramer();
  for await (const item of followOutput(process, { keepaliveMs: logsKeepaliveMs, signal: gone })) {
    if (item !== keepalive) machine.touch();
    yield item === keepalive ? framer.keepalive() : framer.item(item);
  }
}
