// A guest that says whatever a test wants: a server that answers hellos and then sends what it is told to.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { FrameWriter, frameHeader } from "../../src/host/guest/frames.ts";
import { type GuestConnection, openGuest } from "../../src/host/guest/guest.ts";
import { frameType } from "../../src/host/guest/protocol.ts";

export type FakeGuest = AsyncDisposable & {
  socketPath: string;
  /** The socket of the control connection, once its hello has come. */
  control: Promise<Socket>;
  open(options?: { onLost?: (reason: string) => void; connectTimeoutMs?: number }): Promise<GuestConnection>;
};

export type FakeOptions = {
  /** Sent in answer to a control hello; by default the hello itself. */
  hello?: Buffer;
  /** Called for connections to workers after their hello, with everything that comes. */
  onWorker?: (socket: Socket, received: Buffer) => void;
};

export async function startFakeGuest({ hello, onWorker }: FakeOptions = {}): Promise<FakeGuest> {
  const dir = mkdtempSync("/tmp/guest-fake-");
  const socketPath = join(dir, "guest.sock");
  const control = Promise.withResolvers<Socket>();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", (piece: Buffer) => {
      if (piece[6] === 1) {
        socket.write(hello ?? piece.subarray(0, 8));
        control.resolve(socket);
        return;
      }
      onWorker?.(socket, piece.subarray(8));
      socket.on("data", (more: Buffer) => onWorker?.(socket, more));
    });
  });
  server.listen(socketPath);
  await once(server, "listening");
  const log = createLogger("silent");
  return {
    socketPath,
    control: control.promise,
    open: ({ onLost = () => undefined, connectTimeoutMs } = {}) =>
      openGuest({ socketPath, log, onLost, connectTimeoutMs }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export type FakeProcess = {
  channel: number;
  token: string;
  pid?: number;
  acked?: [number, number];
  end?: [number, number];
};

export function processFrame({ channel, token, pid = 100, acked = [0, 0], end = [0, 0] }: FakeProcess): Buffer {
  const writer = new FrameWriter().u32(pid).u64(acked[0]).u64(acked[1]).u8(end[0]).u32(end[1]).text(token);
  return writer.frame(frameType.process, channel);
}

export function outputFrame(channel: number, stream: 1 | 2, offset: number, bytes: Buffer): Buffer {
  const head = new FrameWriter().u8(stream).u64(offset).frame(frameType.output, channel);
  head.writeUInt32LE(9 + bytes.length, 0);
  return Buffer.concat([head, bytes]);
}

export function exitFrame(channel: number, code: number): Buffer {
  return new FrameWriter().u8(1).u32(code).frame(frameType.exit, channel);
}

export function emptyFrame(type: number, channel = 0): Buffer {
  return frameHeader(type, channel, 0);
}

export function attributesOf(name: string, writer = new FrameWriter()): FrameWriter {
  return writer.u8(0).u32(0o644).u32(0).u32(0).u64(5).u64(0).text("root").text("root").text(name);
}
