// Runs one command in a sandbox as if it were local: output as it comes, its exit code, and no process left behind when asked to stop.
import { setTimeout as delay } from "node:timers/promises";
import type { ProcessResponse } from "../../contract/sandbox-api/process.ts";
import { randomToken } from "../../core/ids.ts";
import { CliFailure } from "../failure.ts";
import type { HttpClient } from "../http/http-client.ts";
import { readProcessEvents } from "./events.ts";
import { quoteArguments } from "./quote.ts";

export type ProcessRequest = {
  argv: readonly string[];
  workingDir?: string;
  env?: Record<string, string>;
};

export type ProcessOptions = {
  /** Awaited before more is read, so that a slow receiver slows the process. */
  write(stream: "stdout" | "stderr", chunk: Buffer): Promise<void>;
  /** Aborting ends the process: politely, then by force. */
  stop: AbortSignal;
};

export const stopGraceMs = 2_000;
const killDeadlineMs = 10_000;
const stopRetryMs = 100;
/** The server sends a sign of life every 5 s. */
const silenceMaxMs = 60_000;

/** Resolves with how the process ended, also when it was stopped; rejects when its end was not observed. */
export async function runProcess(
  client: HttpClient,
  request: ProcessRequest,
  { write, stop }: ProcessOptions,
): Promise<ProcessResponse> {
  // The name is chosen here so that the process can be stopped before the answer to its start has come.
  const name = `cli-${randomToken(16)}`;
  const body = Buffer.from(
    JSON.stringify({
      name,
      command: quoteArguments(request.argv),
      workingDir: request.workingDir,
      env: request.env,
      waitForCompletion: true,
    }),
  );
  const abandoned = new AbortController();
  const ended = new AbortController();
  const onStop = (): void => {
    endProcess(client, name, ended.signal).then(
      () => abandoned.abort(),
      () => abandoned.abort(),
    );
  };
  if (stop.aborted) throw new CliFailure("interrupted", "Interrupted.");
  stop.addEventListener("abort", onStop, { once: true });
  try {
    const response = await client.open({
      method: "POST",
      path: "/process",
      headers: { "content-type": "application/json", accept: "text/event-stream" },
      body: () => body,
      idleTimeoutMs: silenceMaxMs,
      signal: abandoned.signal,
    });
    for await (const event of readProcessEvents(response)) {
      if (event.type === "end") return event.process;
      await write(event.type, event.chunk);
    }
    throw new CliFailure("failure", "The process's end was not reported.");
  } finally {
    stop.removeEventListener("abort", onStop);
    ended.abort();
  }
}

/** Returns when the process has ended or nothing more can be done about it. */
async function endProcess(client: HttpClient, name: string, ended: AbortSignal): Promise<void> {
  const startedAtMs = Date.now();
  let asked = false;
  while (!ended.aborted && Date.now() - startedAtMs < killDeadlineMs) {
    const force = Date.now() - startedAtMs >= stopGraceMs;
    if (force || !asked) {
      const path = `/process/${name}${force ? "/kill" : ""}`;
      // Not found: it has not started yet, or it has just ended; the stream tells which.
      asked = await client.json({ method: "DELETE", path, signal: ended }).then(
        () => true,
        () => asked,
      );
    }
    await delay(stopRetryMs, undefined, { signal: ended }).catch(() => undefined);
  }
}

/** The exit code a shell would show for it: its own, or 128 plus the signal that ended it. Never one that nobody observed. */
export function exitCodeOf({ exitCode }: ProcessResponse): number {
  if (exitCode !== null && exitCode >= 0) return exitCode & 0xff;
  throw new CliFailure("failure", "The process ended without an exit code that anyone observed.", {
    remedy: "The sandbox may have run out of memory or been restarted: `catnap sandbox get` shows its errors.",
  });
}
