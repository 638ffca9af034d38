// One platform per data directory: a lock the kernel gives back when its holder dies, however it dies.
import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { createServer } from "node:net";
import { AppError } from "../core/errors.ts";

/** Holds the directory until disposed; throws `conflict` when another process has it. */
export async function lockDataDir(dataDir: string): Promise<AsyncDisposable> {
  // An abstract socket has no file that could outlive the process.
  const name = `\0catnap-${createHash("sha256").update(realpathSync(dataDir)).digest("hex").slice(0, 32)}`;
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE") return reject(error);
      reject(
        new AppError("conflict", `Another catnap already runs on ${dataDir}; stop it or choose another --data-dir.`),
      );
    });
    server.listen(name, resolve);
  });
  server.unref();
  return {
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
