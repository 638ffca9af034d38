// The socket an instance's init listens on: bound here, handed over as a descriptor, so that nothing of it is visible inside.
import { chmodSync, renameSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { AppError } from "../../core/errors.ts";

/** What the kernel's address structure holds, without its final zero. */
const pathMaxBytes = 107;
const backlog = 128;

/** Owned until disposed; what inherited the descriptor goes on listening at the path. */
export type Listener = AsyncDisposable & { fd: number };

export async function listenAt(path: string): Promise<Listener> {
  // Closing the server removes the path it was bound to: bind another one and give the socket its name afterwards.
  const bound = `${path}.new`;
  if (Buffer.byteLength(bound) > pathMaxBytes) {
    throw new AppError(
      "invalid_request",
      `The data directory's path is too long: sockets below it would have ${Buffer.byteLength(bound)} of at most ${pathMaxBytes} bytes.`,
    );
  }
  rmSync(bound, { force: true });
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen({ path: bound, backlog }, resolve);
  });
  try {
    chmodSync(bound, 0o600);
    renameSync(bound, path);
    return { fd: descriptorOf(server), [Symbol.asyncDispose]: () => close(server) };
  } catch (error) {
    await close(server);
    throw error;
  }
}

/** Node has no public way to a server's descriptor. */
function descriptorOf(server: Server): number {
  const fd = (server as { _handle?: { fd?: unknown } })._handle?.fd;
  if (typeof fd !== "number" || fd < 0) throw new AppError("internal", "This Node gives no descriptor of a server.");
  return fd;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}
