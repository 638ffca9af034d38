// Reads the event stream of a running process: what it writes, byte for byte, and how it ended.
import type { IncomingMessage } from "node:http";
import type { ProcessResponse } from "../../contract/sandbox-api/process.ts";
import { CliFailure, printable } from "../failure.ts";
import { readLines } from "./lines.ts";

export type ProcessEvent = { type: "stdout" | "stderr"; chunk: Buffer } | { type: "end"; process: ProcessResponse };

/** The last line repeats the whole output as JSON inside JSON, so it can be many times longer than what the process wrote. */
const lineMaxBytes = 128 * 1024 * 1024;

/**
 * JSON text cannot carry bytes that are not UTF-8. A server that meets such bytes adds them as `base64` beside the readable
 * `data`; without that member `data` is exact. `missingBytes` says that the event stands for output that is lost.
 */
type WireEvent = { type?: unknown; data?: unknown; base64?: unknown; missingBytes?: unknown };

export async function* readProcessEvents(response: IncomingMessage): AsyncGenerator<ProcessEvent> {
  try {
    for await (const line of readLines(response, lineMaxBytes)) {
      if (line.length === 0) continue;
      const event = toProcessEvent(JSON.parse(line.toString("utf8")) as WireEvent);
      if (event === undefined) continue;
      yield event;
      if (event.type === "end") return;
    }
  } catch (error) {
    if (error instanceof CliFailure) throw error;
    throw brokenStream(error);
  }
  throw brokenStream(undefined);
}

function toProcessEvent({ type, data, base64, missingBytes }: WireEvent): ProcessEvent | undefined {
  if (typeof missingBytes === "number" && missingBytes > 0) {
    throw new CliFailure("failure", `${missingBytes} bytes of the output were lost: they were read too slowly.`, {
      remedy: "Write large output to a file in the sandbox and fetch it with `catnap cp`.",
    });
  }
  if (type === "stdout" || type === "stderr") {
    const chunk = typeof base64 === "string" ? Buffer.from(base64, "base64") : Buffer.from(String(data), "utf8");
    return chunk.length === 0 ? undefined : { type, chunk };
  }
  if (type === "result") return { type: "end", process: JSON.parse(String(data)) as ProcessResponse };
  if (type === "error") throw new CliFailure("failure", printable(String(data)));
  return undefined;
}

function brokenStream(cause: unknown): CliFailure {
  return new CliFailure("unreachable", "The connection broke before the process ended; its output is incomplete.", {
    cause,
    remedy: "The process may still run in the sandbox.",
  });
}
