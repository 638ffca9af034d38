// A reconciler: an idempotent piece of background work that runs periodically and when poked, never twice at once.
import type { Logger } from "./log.ts";

export type Loop = AsyncDisposable & {
  /** Asks for a run soon; pokes during a run lead to one more run after it. */
  poke(): void;
  /** Resolves after a run that began after this call; rejects with what that run threw. */
  run(): Promise<void>;
};

export type LoopOptions = {
  name: string;
  intervalMs: number;
  /** When the first run comes, for long intervals: a program may end sooner. */
  firstAfterMs?: number;
  log: Logger;
  work: (signal: AbortSignal) => Promise<void>;
};

export function startLoop({ name, intervalMs, firstAfterMs = intervalMs, log, work }: LoopOptions): Loop {
  const stop = new AbortController();
  let current: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const runNow = (): Promise<void> => {
    // What is thrown before the first await is a failure like any other.
    current = (async () => work(stop.signal))().finally(() => {
      current = undefined;
    });
    return current;
  };
  const run = (): Promise<void> => {
    if (stop.signal.aborted) return Promise.resolve();
    if (current === undefined) return runNow();
    next ??= current
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return stop.signal.aborted ? undefined : runNow();
      });
    return next;
  };
  const poke = (): void => {
    run().catch((error: unknown) => {
      if (!stop.signal.aborted) log.error({ loop: name, err: error }, "background work failed; it runs again");
    });
  };
  const timer = setInterval(poke, intervalMs);
  const first = firstAfterMs < intervalMs ? setTimeout(poke, firstAfterMs) : undefined;
  timer.unref();
  first?.unref();
  return {
    poke,
    run,
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      clearTimeout(first);
      stop.abort();
      await current?.catch(() => undefined);
    },
  };
}
