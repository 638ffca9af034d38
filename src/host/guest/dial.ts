// Opens connections to a guest's socket.
import { connect, type Socket } from "node:net";
import { encodeHello } from "./frames.ts";
import type { ConnectionKind } from "./protocol.ts";

/** A socket being connected, with the hello and `request` on their way; failures arrive as its `error` event. */
export function dial(socketPath: string, kind: ConnectionKind, request?: Buffer): Socket {
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  const hello = encodeHello(kind);
  socket.write(request === undefined ? hello : Buffer.concat([hello, request]));
  return socket;
}
