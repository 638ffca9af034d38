// Writing to the input of a process over HTTP: raw bytes, passed on as fast as the process reads.
import type { IncomingMessage } from "node:http";
import { closeProcessInput, processInputMaxBytes, writeProcessInput } from "../../contract/sandbox-api/process.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import { closeSignal } from "../client-gone.ts";
import type { Machine } from "../machine.ts";
import { type App, route } from "../route.ts";
import { guardBody } from "../stall-guard.ts";
import type { Process } from "./process.ts";

const chunkBytes = 64 * 1024;

export function registerInputRoutes(app: App): void {
  app.register(async (raw) => {
    // Every content type means bytes here.
    raw.removeAllContentTypeParsers();
    raw.addContentTypeParser("*", (_request, _payload, done) => done(null));
    route(
      raw,
      writeProcessInput,
      async ({ params, query, session, request, reply }) => {
        const process = session.processes.get(params.identifier);
        checkInput(process, { mayHaveEnded: false });
        checkLength(request.raw);
        const signal = closeSignal(reply.raw, session);
        const { machine } = session;
        const taken = await write(process, request.raw, { machine, signal, offset: query.offset });
        return { message: "Data written to the process's input", taken };
      },
      { streamsBody: true },
    );
    route(
      raw,
      closeProcessInput,
      async ({ params, session, reply }) => {
        const process = session.processes.get(params.identifier);
        checkInput(process, { mayHaveEnded: true });
        const message = { message: "The process's input is closed" };
        if (process.hasEnded || process.record.isInputClosed === true) return message;
        const signal = closeSignal(reply.raw, session);
        using _turn = await process.inputTurns.take(signal);
        await session.machine.guest.closeStdin(process.runToken, { signal }).catch((error: unknown) => {
          // A process that ended, or does not read any more, has none that is open.
          if (process.hasEnded || errnoOf(error) === "ESRCH" || errnoOf(error) === "EPIPE") return;
          throw inputFailure(error, process);
        });
        process.record.isInputClosed = true;
        process.save();
        return message;
      },
      { streamsBody: true },
    );
  });
}

function checkInput({ record, hasEnded }: Process, { mayHaveEnded }: { mayHaveEnded: boolean }): void {
  const { name, phase } = record;
  if (record.stdin !== true) {
    throw new AppError("conflict", `Process '${name}' has no input: it was started without 'stdin'.`);
  }
  if (hasEnded && !mayHaveEnded) throw new AppError("conflict", `Process '${name}' has ended; its input is closed.`);
  if (record.isInputClosed === true && !mayHaveEnded) throw isClosed(record.name);
  if (phase !== "running" && !hasEnded) {
    throw new AppError("unavailable", `Process '${name}' is being started again; try again.`);
  }
}

function checkLength(request: IncomingMessage): void {
  if (Number(request.headers["content-length"] ?? 0) > processInputMaxBytes) throw tooLarge(0);
}

function tooLarge(takenBytes: number): AppError {
  const already = takenBytes === 0 ? "" : ` The first ${takenBytes} bytes of this one were written.`;
  return new AppError("too_large", `One request may write at most ${processInputMaxBytes} bytes.${already}`);
}

type Writing = { machine: Machine; signal: AbortSignal; offset: number | undefined };

/**
 * The bytes of one request stay together: what fits into one piece waits until it has come whole, and whoever sends more keeps the
 * turn until the end. Resolves with how much the process was given in all.
 */
async function write(
  process: Process,
  request: IncomingMessage,
  { machine, signal, offset }: Writing,
): Promise<number> {
  const stopGuard = guardBody(request, () => request.destroy());
  const pieces = piecesOf(request);
  try {
    const first = await pieces.next();
    using _turn = await process.inputTurns.take(signal);
    checkInput(process, { mayHaveEnded: false });
    const { runToken } = process;
    const given = async (piece: Buffer, at: number | undefined): Promise<number> => {
      const { taken } = await machine.guest
        .writeStdin(runToken, piece, { offset: at, signal })
        .catch((error: unknown) => Promise.reject(inputFailure(error, process)));
      return taken;
    };
    const begin = first.done === true ? Buffer.alloc(0) : first.value;
    let taken = await given(begin, offset);
    let total = begin.length;
    let at = offset === undefined ? taken : offset + begin.length;
    for await (const piece of pieces) {
      if (total + piece.length > processInputMaxBytes) throw tooLarge(total);
      taken = await given(piece, at);
      total += piece.length;
      at += piece.length;
    }
    return taken;
  } finally {
    stopGuard();
    await pieces.return(undefined);
    // What is left of the body is discarded so that the client gets to read the answer.
    request.resume();
  }
}

/** A body's bytes in pieces of `chunkBytes`, the last one shorter. */
async function* piecesOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      held.push(chunk as Buffer);
      bytes += (chunk as Buffer).length;
      if (bytes < chunkBytes) continue;
      const whole = Buffer.concat(held, bytes);
      held = [];
      bytes = 0;
      for (let at = 0; at < whole.length; at += chunkBytes) {
        const piece = whole.subarray(at, at + chunkBytes);
        if (piece.length === chunkBytes) yield piece;
        else {
          held = [piece];
          bytes = piece.length;
        }
      }
    }
  } catch (error) {
    throw new AppError("invalid_request", "The request body ended early.", { cause: error });
  }
  if (bytes > 0) yield Buffer.concat(held, bytes);
}

function isClosed(name: string): AppError {
  return new AppError("conflict", `The input of process '${name}' is closed.`);
}

function errnoOf(error: unknown): unknown {
  return error instanceof AppError ? error.details?.errno : undefined;
}

/** In the words of this operation: closed is a conflict, a reader that stopped makes it unavailable. */
function inputFailure(error: unknown, { record, hasEnded }: Process): AppError {
  const failure = toAppError(error);
  const { name } = record;
  const options = { cause: error, details: { ...failure.details } };
  const taken = failure.details?.taken;
  const soFar = typeof taken === "number" ? ` It was given ${taken} bytes in all.` : "";
  switch (errnoOf(error)) {
    case "ESRCH":
      return hasEnded || record.phase === "running"
        ? new AppError("conflict", `Process '${name}' has ended; its input is closed.`, options)
        : new AppError("unavailable", `Process '${name}' is being started again; try again.`, options);
    case "EBADF":
      return isClosed(name);
    case "EINVAL":
      return new AppError("conflict", `The offset leaves a gap.${soFar}`, options);
    case "EPIPE":
      return new AppError("unavailable", `Process '${name}' has stopped reading its input.${soFar}`, options);
  }
  if (failure.code !== "timeout") return failure;
  return new AppError("unavailable", `Process '${name}' does not read its input.${soFar}`, options);
}
