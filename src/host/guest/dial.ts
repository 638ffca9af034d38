// Opens connections to a guest's socket.
import { connect, type Socket } from "node:net";
import { encodeHello } from "./frames.ts";
import { type ConnectionKind, connectionKind } from "./protocol.ts";

/** Long enough for all that a guest's socket holds at once. */
const received = Buffer.allocUnsafeSlow(256 * 1024);

/** Where the bytes of a control connection go: a piece is overwritten by the next of any connection, so it is used or copied at once. */
export type Receiver = { receive: (piece: Buffer) => void };

/** As `dial`, for a connection that carries much: all of them are read into the same memory. */
export function dialControl(socketPath: string, receiver: Receiver): Socket {
  const callback = (length: number): boolean => {
    receiver.receive(received.subarray(0, length));
    return true;
  };
  const socket = connect({ path: socketPath, allowHalfOpen: true, onread: { buffer: received, callback } });
  socket.write(encodeHello(connectionKind.control));
  return socket;
}

/** A socket being connected, with the hello and `request` on their way; failures arrive as its `error` event. */
export function dial(socketPath: string, kind: ConnectionKind, request?: Buffer): Socket {
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  const hello = encodeHello(kind);
  socket.write(request === undefined ? hello : Buffer.concat([hello, request]));
  return socket;
}
