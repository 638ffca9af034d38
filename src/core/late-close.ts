// Closes a connection whose other end may still be sending: bytes that nobody reads would take back what was said last (RFC 9112, 9.6).
import type { Duplex } from "node:stream";

export const lateBytesMs = 10_000;

/** Half of it at first; what still comes is read and thrown away until the other end has closed, too, or for so long. */
export function closeLate(socket: Duplex, limitMs = lateBytesMs): void {
  const timer = setTimeout(() => socket.destroy(), limitMs).unref();
  socket.once("close", () => clearTimeout(timer));
  socket.end();
  socket.resume();
}
