// Sends an answer that comes piece by piece: each is with the kernel before the next is made, so a client that does not read costs one.
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import { timingOf } from "../../core/timing.ts";
import { guardAnswer } from "../stall-guard.ts";

/** Bytes as a string of one character each: in great numbers the collector is done with them much sooner than with buffers. */
export type ByteString = string;

export function toByteString(bytes: Buffer): ByteString {
  return bytes.toString("latin1");
}

/** The head goes out at once: who follows a process that says nothing must not wait for its first line to learn that they do. */
export function sendStream(reply: FastifyReply, type: string, chunks: AsyncIterable<ByteString>): FastifyReply {
  const { raw } = reply;
  reply.type(type).header("x-accel-buffering", "no").header("server-timing", timingOf(reply.request.raw).header());
  reply.hijack();
  guardAnswer(raw);
  raw.writeHead(200, reply.getHeaders() as Record<string, string>);
  raw.flushHeaders();
  // What is broken off is told from what is complete by its missing end.
  send(raw, chunks).catch(() => raw.destroy());
  return reply;
}

async function send(raw: ServerResponse, chunks: AsyncIterable<ByteString>): Promise<void> {
  let settle = (): void => undefined;
  raw.once("close", () => settle());
  for await (const chunk of chunks) {
    if (raw.destroyed) return;
    await new Promise<void>((resolve) => {
      settle = resolve;
      raw.write(chunk, "latin1", () => resolve());
    });
  }
  raw.end();
}
