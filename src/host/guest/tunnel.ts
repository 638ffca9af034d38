// A byte stream from the host to a TCP server inside a sandbox, or to one elsewhere as the sandbox reaches it.
import type { Socket } from "node:net";
import { AppError } from "../../core/errors.ts";
import { dial } from "./dial.ts";
import { errnoName, GuestProtocolError } from "./guest-errors.ts";
import { decodeFailed, encodeConnect, encodeConnectTo } from "./messages.ts";
import { connectionKind, frameType } from "./protocol.ts";
import { WorkerLink } from "./worker-link.ts";

const connectTimeoutMs = 15_000;

/** Without a host a port inside. */
export type TunnelTarget = { host?: string; port: number };

/** The socket once a server inside has accepted; its first unread byte is the first one from that server. */
export async function openTunnel(socketPath: string, target: TunnelTarget, signal?: AbortSignal): Promise<Socket> {
  const { host, port } = target;
  const request = host === undefined ? encodeConnect(port) : encodeConnectTo(host, port);
  signal?.throwIfAborted();
  const link = new WorkerLink(dial(socketPath, connectionKind.tunnel, request));
  try {
    const what = `Connecting to ${host === undefined ? "" : `${host} `}port ${port}`;
    const frame = await link.next({ timeoutMs: connectTimeoutMs, signal, what });
    if (frame.type === frameType.failed) throw connectError(decodeFailed(frame), target);
    if (frame.type !== frameType.done || frame.payload.length > 0) {
      throw new GuestProtocolError("a tunnel's answer is of another type");
    }
    const { socket, rest } = link.release();
    // Until whoever asked has listeners of its own, a reset must not be thrown.
    socket.on("error", () => undefined);
    if (rest.length > 0) socket.unshift(rest);
    return socket;
  } catch (error) {
    link[Symbol.dispose]();
    throw error;
  }
}

function connectError({ errno, operation }: ReturnType<typeof decodeFailed>, { host, port }: TunnelTarget): AppError {
  const name = errnoName(errno);
  const details = { errno: name };
  if (name === "EAGAIN") {
    return new AppError("rate_limited", "Too many connections to ports of this sandbox are open.", { details });
  }
  const failed = (message: string): AppError => new AppError("upstream_failed", message, { details });
  if (host === undefined) return failed(`Nothing answers on port ${port} of the sandbox (${name}).`);
  if (operation === "resolve") return failed(`The sandbox does not know the name ${host} (${name}).`);
  return failed(`The sandbox does not reach ${host} on port ${port} (${name}).`);
}
