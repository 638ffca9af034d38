// Keeps the platform in the foreground: the first stop signal ends it in order, a second one at once.

import type { Platform } from "../../contract/platform.ts";
import type { CliContext } from "../context.ts";
import { CliFailure } from "../failure.ts";

/** A signal that comes right after the first is the same key press: npm passes on what the terminal has already sent. */
const sameKeyPressMs = 1_000;
const stopTimeoutMs = 60_000;

export type Started = { platform: Platform; ready: Promise<void> };

/** Returns when the platform was asked to stop and has; rejects when it could not start. */
export async function untilStopped(
  context: CliContext,
  say: (text: string) => void,
  start: (stop: AbortSignal) => Promise<Started>,
): Promise<void> {
  const stop = new AbortController();
  const force = new AbortController();
  let firstAtMs = 0;
  using _handler = context.onStopSignal(() => {
    const nowMs = performance.now();
    if (!stop.signal.aborted) {
      firstAtMs = nowMs;
      stop.abort();
    } else if (nowMs - firstAtMs > sameKeyPressMs) force.abort();
  });
  const forced = rejectAt(force.signal);
  const { platform, ready } = await Promise.race([start(stop.signal), forced]);
  const stopped = new Promise<void>((resolve) => {
    if (stop.signal.aborted) resolve();
    else stop.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  try {
    await ready;
    await stopped;
  } finally {
    say("stopping\n");
    await disposeInTime(platform, force.signal);
  }
  say("stopped; sandboxes stay asleep and are there at the next start\n");
}

async function disposeInTime(platform: Platform, force: AbortSignal): Promise<void> {
  const givenUp = rejectAt(AbortSignal.any([force, AbortSignal.timeout(stopTimeoutMs)]));
  await Promise.race([platform[Symbol.asyncDispose](), givenUp]);
}

function rejectAt(signal: AbortSignal): Promise<never> {
  const rejected = new Promise<never>((_, reject) => {
    const giveUp = (): void => {
      reject(new CliFailure("failure", "The platform was stopped before it had finished starting or stopping."));
    };
    signal.addEventListener("abort", giveUp, { once: true });
  });
  // It may come when nobody waits for it any more.
  rejected.catch(() => undefined);
  return rejected;
}
