// The process operations over HTTP.
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
import { EventFramer, event } from "./event-framer.ts";
import { readIdempotencyKey } from "./idempotency.ts";
import type { StreamOffsets } from "./journal-format.ts";
import { LineFramer } from "./line-framer.ts";
import { type Framer, followOutput } from "./output-stream.ts";
import { inlineTailBytes, logsTailBytes, readTail, tailCost } from "./output-tail.ts";
import type { Process } from "./process.ts";
import { processAnswer, processAnswerWithTail } from "./process-answer.ts";
import { type ByteString, sendStream } from "./send-stream.ts";
import { describeStartFailure, toStartRequest } from "./start-request.ts";
import { waitAsAsked } from "./wait.ts";

const execKeepaliveMs = 5_000;
const logsKeepaliveMs = 30_000;
const ndjson = "application/x-ndjson";

export function registerProcessRoutes(app: App): void {
  route(app, startProcess, async ({ body, session, request, reply, timing }) => {
    const start = toStartRequest(body, session.machine);
    const streams = request.headers.accept?.includes("text/event-stream") ?? false;
    const key = readIdempotencyKey(request.headers["idempotency-key"], body, session.machine);
    const { process, isRepeated } = await timing
      .measure("guest", () => session.processes.start(start, key))
      .catch(async (error: unknown) => {
        throw await describeStartFailure(error, start.workingDir, session.machine);
      });
    if (isRepeated) reply.header("idempotent-replayed", "true");
    const gone = closeSignal(reply.raw, session);
    countActivity(request.raw, "holds");
    const waiting = { machine: session.machine, gone };
    if (streams) return sendStream(reply, ndjson, execEvents(process, body, waiting));
    await timing.measure("guest", () => waitAsAsked(process, body, waiting));
    if (body.waitForCompletion !== true) return processAnswer(process, undefined);
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

  route(app, streamProcessLogs, ({ params, query, session, request, reply }) => {
    const process = session.processes.get(params.identifier);
    const from = { stdout: query.stdoutOffset ?? 0, stderr: query.stderrOffset ?? 0 };
    checkOffsets(process, from);
    const asEvents = request.headers.accept?.includes(ndjson) ?? false;
    const type = asEvents ? ndjson : "text/plain; charset=utf-8";
    if (request.method === "HEAD") return reply.type(type).send();
    countActivity(request.raw, "reports");
    const followed = { from, gone: closeSignal(reply.raw, session), machine: session.machine };
    return sendStream(reply, type, asEvents ? logEvents(process, followed) : logLines(process, followed));
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

async function endProcess({ processes }: SessionContext, identifier: string, by: "stop" | "kill"): Promise<void> {
  await processes.get(identifier).end(by);
}

/** What nobody can have been sent yet is not where somebody left off. */
function checkOffsets({ journal: { written } }: Process, from: StreamOffsets): void {
  for (const stream of ["stdout", "stderr"] as const) {
    if (from[stream] <= written[stream]) continue;
    const message = `${stream}Offset is ${from[stream]}, and the process has written ${written[stream]} bytes there`;
    throw new AppError("range_not_satisfiable", message);
  }
}

async function* execEvents(
  process: Process,
  request: ProcessRequest,
  { machine, gone }: { machine: Machine; gone: AbortSignal },
): AsyncGenerator<ByteString> {
  const stop = new AbortController();
  const signal = AbortSignal.any([gone, stop.signal]);
  // The stream itself goes on until the end.
  const wait = waitAsAsked(process, { ...request, waitForCompletion: true }, { machine, gone }).then(
    () => undefined,
    (error: unknown) => {
      stop.abort();
      return error;
    },
  );
  const framer = new EventFramer();
  yield* followOutput(process, { framer, keepaliveMs: execKeepaliveMs, signal, paced: true });
  if (gone.aborted) return;
  if (signal.aborted) yield framer.end();
  const failure = await wait;
  if (failure !== undefined) {
    yield event("error", failure instanceof AppError ? failure.message : "The process could not be followed.");
    return;
  }
  yield await resultEvent(process);
}

type Followed = { from: StreamOffsets; gone: AbortSignal; machine: Machine };

/** Output is use of the sandbox, a keepalive is not. */
function followLog(process: Process, framer: Framer, { from, gone, machine }: Followed): AsyncGenerator<ByteString> {
  const onOutput = (): void => machine.touch();
  return followOutput(process, { framer, keepaliveMs: logsKeepaliveMs, signal: gone, from, onOutput });
}

/** Ends with the result, by which a reader tells the end from a connection that was cut. */
async function* logEvents(process: Process, followed: Followed): AsyncGenerator<ByteString> {
  yield* followLog(process, new EventFramer(followed.from), followed);
  if (!followed.gone.aborted) yield await resultEvent(process);
}

async function resultEvent(process: Process): Promise<ByteString> {
  return event("result", JSON.stringify(await processAnswerWithTail(process, inlineTailBytes)));
}

function logLines(process: Process, followed: Followed): AsyncGenerator<ByteString> {
  return followLog(process, new LineFramer(), followed);
}
