// Carries an agreed WebSocket between a caller and a server inside that may sleep: data counts as use and wakes it, pings do not.
import type { Duplex } from "node:stream";
import type { Machine } from "../machine.ts";
import { closeFrame, FrameScanner, pongFrame, readPings } from "./websocket-frames.ts";

/** Pongs for a caller that does not take them are not made any more. */
const unsentPongsMaxBytes = 64 * 1024;
const goingAway = 1_001;
/** How long a caller may take to close after it was told why. */
const farewellMs = 5_000;

export type TunnelOptions = {
  /** The caller's side. */
  socket: Duplex;
  /** The server's side. */
  upstream: Duplex;
  machine: Pick<Machine, "touch" | "isAsleep">;
  /** Bytes that came from either side together with the agreement. */
  fromCaller: Buffer;
  fromServer: Buffer;
  silenceTimeoutMs: number;
};

export function carryWebSocket(options: TunnelOptions): void {
  const { socket, upstream, machine, fromCaller, fromServer, silenceTimeoutMs } = options;
  const toServer = new FrameScanner();
  const toCaller = new FrameScanner();

  const close = (): void => {
    const reason = `no data for ${Math.round(silenceTimeoutMs / 60_000)} minutes`;
    if (toServer.isAtBoundary) upstream.write(closeFrame(goingAway, reason, true));
    upstream.end();
    if (!toCaller.isAtBoundary) return void socket.destroy();
    upstream.unpipe(socket);
    socket.end(closeFrame(goingAway, reason, false));
    setTimeout(() => socket.destroy(), farewellMs).unref();
  };
  const silence = new Silence(silenceTimeoutMs, close);
  upstream.once("close", () => silence.end());

  const used = (): void => {
    silence.broken();
    machine.touch();
  };
  const onCallerBytes = (bytes: Buffer): void => {
    // The server cannot answer in its sleep, and a caller that hears nothing would take the connection for dead.
    if (machine.isAsleep && toServer.isAtBoundary && toCaller.isAtBoundary) {
      const pings = readPings(bytes);
      if (pings !== undefined) {
        for (const ping of pings) if (socket.writableLength < unsentPongsMaxBytes) socket.write(pongFrame(ping));
        return;
      }
    }
    if (toServer.scan(bytes)) used();
    if (!upstream.write(bytes)) socket.pause();
  };
  if (fromServer.length > 0) {
    if (toCaller.scan(fromServer)) used();
    socket.write(fromServer);
  }
  if (fromCaller.length > 0) onCallerBytes(fromCaller);
  upstream.on("data", (bytes: Buffer) => {
    if (toCaller.scan(bytes)) used();
  });
  upstream.pipe(socket);
  upstream.on("drain", () => socket.resume());
  socket.on("data", onCallerBytes);
  socket.once("end", () => upstream.end());
}

/** One timer however many frames come. */
class Silence {
  readonly #limitMs: number;
  readonly #onTooLong: () => void;
  #brokenAtMs = performance.now();
  #timer: NodeJS.Timeout;

  constructor(limitMs: number, onTooLong: () => void) {
    this.#limitMs = limitMs;
    this.#onTooLong = onTooLong;
    this.#timer = this.#wait(limitMs);
  }

  broken(): void {
    this.#brokenAtMs = performance.now();
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #wait(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      const leftMs = this.#brokenAtMs + this.#limitMs - performance.now();
      if (leftMs <= 1) this.#onTooLong();
      else this.#timer = this.#wait(leftMs);
    }, ms);
  }
}
