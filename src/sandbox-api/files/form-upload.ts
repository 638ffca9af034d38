// Takes the `file` part of a multipart form as a stream, with back-pressure and without ever holding it.
import type { IncomingMessage } from "node:http";
import { PassThrough, type Readable } from "node:stream";
import { Busboy, type BusboyHeaders, type BusboyInstance } from "@fastify/busboy";
import { AppError } from "../../core/errors.ts";
import { guardBody } from "../stall-guard.ts";

const fieldMaxBytes = 16 * 1024;
const chunkBytes = 256 * 1024;
/** Files up to this size are taken whole; the guest takes them with its request. */
const smallFileMaxBytes = 128 * 1024;

export type FormFields = ReadonlyMap<string, string>;

/**
 * Calls `onFile` with the file's bytes and the fields seen before it; resolves with its result and all fields. The bytes end only
 * after the whole form has come and `checkFields` has not thrown, so that whoever publishes the file at their end never does for a
 * form that is refused. Bytes that stop short, a broken form and a departed client end the stream with an error.
 */
export function receiveFile<Result>(
  request: IncomingMessage,
  onFile: (file: Readable, fields: FormFields, signal: AbortSignal) => Promise<Result>,
  checkFields: (fields: FormFields) => void = () => undefined,
): Promise<{ result: Result; fields: FormFields }> {
  const fields = new Map<string, string>();
  const broken = new AbortController();
  return new Promise((resolve, reject) => {
    let stored: Promise<Result> | undefined;
    let file: PassThrough | undefined;
    const accepted = Promise.withResolvers<void>();
    const form = openForm(request);
    const stopGuard = guardBody(request, () => {
      fail(new AppError("timeout", "No more of the request body came."));
    });
    const fail = (error: unknown): void => {
      stopGuard();
      request.unpipe(form);
      request.off("close", onClose);
      broken.abort(error);
      file?.destroy(error as Error);
      // The rest of the body is discarded so that the client gets to read the answer.
      request.resume();
      reject(error);
    };
    const onClose = (): void => {
      if (!request.complete) fail(new AppError("invalid_request", "The request body ended early."));
    };
    form.on("field", (name, value, _nameTruncated, isTruncated) => {
      if (isTruncated) fail(new AppError("too_large", `The form field '${name.slice(0, 64)}' is too long.`));
      else fields.set(name, value);
    });
    form.on("file", (name, stream, filename) => {
      stream.on("error", (error: Error) =>
        fail(new AppError("invalid_request", "The form is broken.", { cause: error })),
      );
      if (name !== "file" || filename === undefined || file !== undefined) return void stream.resume();
      file = new PassThrough({
        highWaterMark: chunkBytes,
        flush: (done) => void accepted.promise.then(() => done()),
      });
      // Its reader may have given up, or not have begun.
      file.on("error", () => undefined);
      stored = onFile(stream.pipe(file), fields, broken.signal);
      stored.catch(fail);
    });
    form.on("error", (error) => fail(new AppError("invalid_request", "The form is broken.", { cause: error })));
    form.on("finish", () => {
      request.off("close", onClose);
      if (stored === undefined) {
        return fail(new AppError("invalid_request", "The form has no part 'file' with a file name."));
      }
      try {
        checkFields(fields);
      } catch (error) {
        return fail(error);
      }
      accepted.resolve();
      stored.then((result) => resolve({ result, fields }), reject);
    });
    request.once("close", onClose);
    request.pipe(form);
  });
}

/** The bytes of a file that is small, once its form came whole; of a larger one undefined, and it can still be read from its start. */
export function takeSmallFile(file: Readable): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const onData = (chunk: Buffer): void => {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes <= smallFileMaxBytes) return;
    file.pause().off("data", onData);
    file.unshift(Buffer.concat(chunks));
    resolve(undefined);
  };
  const onEnd = (): void => resolve(Buffer.concat(chunks));
  const onClose = (): void => reject(file.errored ?? new AppError("conflict", "The upload was interrupted."));
  // It may have been given up before anybody listened.
  if (file.destroyed) onClose();
  file.on("data", onData).once("end", onEnd).once("close", onClose);
  return promise.finally(() => file.off("data", onData).off("end", onEnd).off("close", onClose));
}

function openForm(request: IncomingMessage): BusboyInstance {
  try {
    return new Busboy({
      headers: request.headers as BusboyHeaders,
      limits: { fields: 16, fieldSize: fieldMaxBytes, files: 4, parts: 20, headerPairs: 32 },
      fileHwm: chunkBytes,
      highWaterMark: chunkBytes,
    });
  } catch (error) {
    throw new AppError("invalid_request", "The form's content type has no usable boundary.", { cause: error });
  }
}
