// What a failed write is told as: the path is the target, not a resource that was looked for.
import { AppError } from "../../core/errors.ts";

/** Whatever keeps a file from being written is 422, also a missing or existing directory in its path. */
export async function asWriteFailure<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof AppError) || (error.code !== "not_found" && error.code !== "already_exists")) throw error;
    throw new AppError("unprocessable", error.message, { cause: error, details: error.details });
  }
}
