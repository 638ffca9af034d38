// Ends bodies whose client neither takes nor sends anything for a long time: they hold a file, a connection and their memory.
import type { IncomingMessage, ServerResponse } from "node:http";

export const stallMs = 300_000;
const checkMs = 30_000;

/** Breaks an answer off when bytes wait and none of them has been taken for `stallMs`. Silence without waiting bytes is no stall. */
export function guardAnswer(response: ServerResponse, limitMs = stallMs, intervalMs = checkMs): void {
  watch(intervalMs, limitMs, response, {
    progress: () => takenOf(response.socket),
    isWaiting: () => response.writableLength > 0 || (response.socket?.writableLength ?? 0) > 0,
    onStall: () => response.destroy(),
  });
}

/** Of a piece that was given to the kernel, too, what it has taken: a slow client needs minutes for a large one. */
function takenOf(socket: ServerResponse["socket"]): number {
  // Node counts a piece when it begins with it, and tells only here how much of it still waits.
  const handle = (socket as { _handle?: { writeQueueSize?: number } | null } | null)?._handle;
  return (socket?.bytesWritten ?? 0) - (handle?.writeQueueSize ?? 0);
}

/** Calls back when a request's body is awaited and nothing of it has come for `stallMs`; returns what ends the watch. */
export function guardBody(
  request: IncomingMessage,
  onStall: () => void,
  limitMs = stallMs,
  intervalMs = checkMs,
): () => void {
  return watch(intervalMs, limitMs, request, {
    progress: () => request.socket.bytesRead,
    isWaiting: () => !request.complete && !request.isPaused(),
    onStall,
  });
}

type Watched = { progress: () => number; isWaiting: () => boolean; onStall: () => void };

function watch(
  intervalMs: number,
  limitMs: number,
  stream: { once(event: "close", listener: () => void): unknown; destroyed: boolean },
  { progress, isWaiting, onStall }: Watched,
): () => void {
  let last = progress();
  let movedAt = performance.now();
  const timer = setInterval(() => {
    const now = progress();
    if (now !== last || !isWaiting()) {
      last = now;
      movedAt = performance.now();
    } else if (performance.now() - movedAt >= limitMs) {
      stop();
      onStall();
    }
  }, intervalMs);
  timer.unref();
  const stop = (): void => clearInterval(timer);
  if (stream.destroyed) stop();
  else stream.once("close", stop);
  return stop;
}
