// Reads the body of an upload piece by piece, at the pace of who writes it down, and gives up on clients that fall silent.
import type { IncomingMessage } from "node:http";
import { AppError } from "../../core/errors.ts";

export type BodyLimits = {
  /** Longest silence. */
  stallMs: number;
  /** Longest time for all of it. */
  totalMs: number;
};

export type UploadBody = AsyncIterable<Buffer> & {
  /** Makes the reader fail with the error, also while it waits. */
  interrupt(error: AppError): void;
};

export function readBody(request: IncomingMessage, { stallMs, totalMs }: BodyLimits): UploadBody {
  let interrupted: AppError | undefined;
  let rejectWaiting: ((error: AppError) => void) | undefined;
  const interrupt = (error: AppError): void => {
    interrupted ??= error;
    rejectWaiting?.(interrupted);
  };
  return {
    interrupt,
    async *[Symbol.asyncIterator]() {
      // Ending early must not cut the connection: the client is to see why.
      const chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
      const silent = (): void => interrupt(timeout(`Nothing of the body came for ${stallMs / 1000} seconds.`));
      const slow = (): void => interrupt(timeout(`The upload took longer than ${totalMs / 1000} seconds.`));
      const total = setTimeout(slow, totalMs);
      try {
        for (;;) {
          const stall = setTimeout(silent, stallMs);
          try {
            if (interrupted !== undefined) throw interrupted;
            const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<Buffer>>();
            rejectWaiting = reject;
            chunks.next().then(resolve, reject);
            const { value, done } = await promise;
            if (done) return;
            clearTimeout(stall);
            yield value;
          } finally {
            clearTimeout(stall);
            rejectWaiting = undefined;
          }
        }
      } finally {
        clearTimeout(total);
        // What still comes is thrown away, for as long as the listener lets it.
        void chunks.return?.().then(
          () => request.resume(),
          () => undefined,
        );
      }
    },
  };
}

function timeout(message: string): AppError {
  return new AppError("timeout", message);
}
