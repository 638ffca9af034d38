// What a caller still sends when its answer has ended: read and thrown away for a while, because a caller must get to see the answer.
import { constants, type ServerHttp2Stream } from "node:http2";

const limitMs = 10_000;

/** To be closed at once (RFC 9113, 8.1) would take trailers with it that have not been sent yet. */
export function discardLateBody(stream: ServerHttp2Stream): void {
  if (stream.closed || stream.readableEnded) return;
  stream.unpipe();
  stream.resume();
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), limitMs);
  stream.once("close", () => clearTimeout(timer));
}
