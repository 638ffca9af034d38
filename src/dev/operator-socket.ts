// Opens the operator socket: in a directory that only this user may enter, so that no other user can connect at any moment.
import { chmodSync, closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { operatorDir, operatorSocketName } from "../contract/operator/socket.ts";
import { AppError } from "../core/errors.ts";
import { timingOf } from "../core/timing.ts";
import { refuseClient } from "./incoming.ts";

const connectionsMax = 64;
const headersTimeoutMs = 30_000;
const requestTimeoutMs = 120_000;

/** The caller holds the data directory's lock: a socket that is there already has no owner any more. */
export async function openOperatorSocket(
  dataDir: string,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const dir = operatorDir(dataDir);
  const directory = opened.adopt(openOwnDirectory(dir), closeSync);
  // Addresses of sockets have at most 107 bytes; a path through the open directory has few, however long its own is.
  const path = `/proc/self/fd/${directory}/${operatorSocketName}`;
  rmSync(path, { force: true });
  const server = createServer(
    { headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs },
    (request, response) => {
      timingOf(request);
      handle(request, response);
    },
  );
  server.maxConnections = connectionsMax;
  server.on("clientError", refuseClient);
  server.on("upgrade", (_request, socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new AppError("internal", `The operator socket in ${dir} cannot be opened: ${cause.message}`, { cause }));
    });
    server.listen(path, resolve);
  });
  opened.defer(async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  });
  chmodSync(path, 0o600);
  const stack = opened.move();
  return { [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** A descriptor of the directory, made if it is missing. One of somebody else, or a link to one, is refused. */
function openOwnDirectory(path: string): number {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const directory = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    if (fstatSync(directory).uid !== process.geteuid?.()) {
      throw new AppError("conflict", `${path} belongs to another user; remove it and start again.`);
    }
    fchmodSync(directory, 0o700);
    return directory;
  } catch (error) {
    closeSync(directory);
    throw error;
  }
}
