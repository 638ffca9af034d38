// A promise settled from outside, that gives up at a deadline or when its signal is aborted.
import { AppError } from "../../core/errors.ts";

export type Deferred<T> = { promise: Promise<T>; resolve(value: T): void; reject(error: unknown): void };

export type DeadlineOptions = {
  /** Absent: no deadline. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** What did not happen, for the message. */
  what: string;
};

export function deferWithDeadline<T>({ timeoutMs, signal, what }: DeadlineOptions): Deferred<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = (): void => settle(() => reject(signal!.reason));
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => settle(() => reject(new AppError("timeout", `${what} took too long.`))), timeoutMs);
  const settle = (act: () => void): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    act();
  };
  if (signal?.aborted) onAbort();
  else signal?.addEventListener("abort", onAbort, { once: true });
  return {
    promise,
    resolve: (value) => settle(() => resolve(value)),
    reject: (error) => settle(() => reject(error)),
  };
}
