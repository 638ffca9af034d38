// What an open connection has carried, as whoever puts instances to sleep asks from time to time: nothing is counted meanwhile.
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { activityRule } from "../../sandbox-api/activity.ts";

/**
 * A number that changes when the connection carries something, and only then; undefined as long as it holds the instance awake
 * whatever it carries, because it awaits what the instance does.
 */
export type Carried = () => number | undefined;

export function carriedBy(request: IncomingMessage, answer: ServerResponse | Duplex): Carried {
  return () => {
    const rule = activityRule(request);
    if (rule !== undefined) return rule === "reports" ? 0 : undefined;
    // An upgrade that has not been agreed on yet.
    if (!(answer instanceof ServerResponse)) return undefined;
    const awaitsCaller = !request.complete && request.readableLength === 0;
    if (!answer.headersSent && !awaitsCaller) return undefined;
    const { socket } = request;
    // What a caller does not take has not been carried.
    return socket.bytesRead + socket.bytesWritten - socket.writableLength;
  };
}
