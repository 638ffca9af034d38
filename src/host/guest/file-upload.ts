// The content of a file on its way into a sandbox: chunks become data frames, with the socket's back-pressure passed on.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { AppError } from "../../core/errors.ts";
import { frameHeader } from "./frames.ts";
import { encodeEmpty } from "./messages.ts";
import { dataPayloadMax, frameType } from "./protocol.ts";

export function dataFrames(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += dataPayloadMax) {
    const part = bytes.subarray(at, at + dataPayloadMax);
    frames.push(frameHeader(frameType.data, 0, part.length), part);
  }
  return frames;
}

export const endFrame: Buffer = encodeEmpty(frameType.end, 0);

function writeFrames(socket: Socket, chunk: unknown): boolean {
  if (!Buffer.isBuffer(chunk) && !(chunk instanceof Uint8Array)) {
    throw new AppError("internal", "The body of a file consists of bytes.");
  }
  const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  let wantsMore = true;
  socket.cork();
  for (const part of dataFrames(bytes)) wantsMore = socket.write(part);
  socket.uncork();
  return wantsMore;
}

/**
 * Sends a body and the end frame. Rejects when the body fails; disposing stops reading the body, which then stays where it is,
 * because the guest may refuse a file long before its last byte. What the guest does not take for so long is given up.
 */
export function sendBody(socket: Socket, body: Readable, stallTimeoutMs: number): Disposable & { sent: Promise<void> } {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let stall: NodeJS.Timeout | undefined;
  const onStall = (): void => reject(new AppError("timeout", "The sandbox has stopped taking the file."));
  const onData = (chunk: unknown): void => {
    try {
      if (writeFrames(socket, chunk)) return;
      body.pause();
      stall ??= setTimeout(onStall, stallTimeoutMs);
    } catch (error) {
      reject(error);
    }
  };
  const onDrain = (): void => {
    clearTimeout(stall);
    stall = undefined;
    body.resume();
  };
  const onEnd = (): void => {
    socket.write(endFrame);
    resolve();
  };
  const onClose = (): void => {
    if (!body.readableEnded) reject(body.errored ?? new AppError("conflict", "The upload was interrupted."));
  };
  const stop = (): void => {
    clearTimeout(stall);
    body.off("data", onData).off("end", onEnd).off("error", reject).off("close", onClose);
    socket.off("drain", onDrain);
    if (!body.destroyed) body.pause();
  };
  promise.catch(() => undefined);
  if (body.destroyed || body.readableEnded) onClose();
  body.on("end", onEnd).on("error", reject).on("close", onClose).on("data", onData);
  socket.on("drain", onDrain);
  body.resume();
  return { sent: promise, [Symbol.dispose]: stop };
}
