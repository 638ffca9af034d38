// How long a search by names may take; whoever asked and leaves ends it before.
import { AppError } from "../../core/errors.ts";

const timeoutMs = 60_000;

/** `gone` aborts when nobody awaits the outcome any more. */
export async function withinSearchTime<Result>(
  gone: AbortSignal,
  search: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    return await search(AbortSignal.any([gone, deadline]));
  } catch (error) {
    if (!deadline.aborted || gone.aborted) throw error;
    const message = `The search took longer than ${timeoutMs / 1_000} seconds: search a smaller tree.`;
    throw new AppError("timeout", message, { cause: error });
  }
}
