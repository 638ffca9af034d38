// What callers are told when a server inside a sandbox does not answer as it should.
import { AppError, toAppError } from "../../core/errors.ts";

export function describeFailure(error: Error, port: number): AppError {
  if (error instanceof AppError) {
    if (error.code !== "upstream_failed") return error;
    return new AppError("upstream_failed", `Nothing inside the sandbox answers on port ${port}: ${error.message}`, {
      cause: error,
    });
  }
  if (error.name === "TimeoutError") {
    return new AppError("timeout", `The server on port ${port} did not answer in time.`, { cause: error });
  }
  if ("code" in error) {
    return new AppError("upstream_failed", `The server on port ${port} broke the connection or HTTP.`, {
      cause: error,
    });
  }
  return toAppError(error);
}
