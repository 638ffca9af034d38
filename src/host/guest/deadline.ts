// A promise settled from outside, that gives up at a deadline or when its signal is aborted.
import { AppError } from "../../core/errors.ts";

export type Deferred<T> = {
  promise: Promise<T>;
  /** Whether it was still open: who awaits it learns only a turn later that it gave up. */
  resolve(value: T): boolean;
  reject(error: unknown): void;
};

export type DeadlineOptions = {
  /** Absent or infinite: no deadline. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** What did not happen, for the message. */
  what: string;
};

export function deferWithDeadline<T>({ timeoutMs, signal, what }: DeadlineOptions): Deferred<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let isOpen = true;
  const onAbort = (): void => void settle(() => reject(signal!.reason));
  const timer =
    timeoutMs === undefined || timeoutMs === Infinity
      ? undefined
      : setTimeout(() => settle(() => reject(new AppError("timeout", `${what} took too long.`))), timeoutMs);
  const settle = (act: () => void): boolean => {
    if (!isOpen) return false;
    isOpen = false;
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    act();
    return true;
  };
  if (signal?.aborted) onAbort();
  else signal?.addEventListener("abort", onAbort, { once: true });
  return {
    promise,
    resolve: (value) => settle(() => resolve(value)),
    reject: (error) => void settle(() => reject(error)),
  };
}
