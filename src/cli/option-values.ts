// Reads the values of options: KEY=VALUE, once or many times, and durations.
import { parseDurationMs } from "../core/duration.ts";
import { usageFailure } from "./failure.ts";

/** What a timer of this runtime can wait. */
const timeoutMaxMs = 2_147_483_647;

/** For commander: adds one occurrence of an option to those before it. */
export function collect(value: string, previous: string[] | undefined): string[] {
  return [...(previous ?? []), value];
}

export function parsePairs(option: string, texts: readonly string[] = []): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf("=");
    if (at < 1) throw usageFailure(`${option} takes KEY=VALUE, not ${text}.`);
    pairs[text.slice(0, at)] = text.slice(at + 1);
  }
  return pairs;
}

/** Like `parsePairs`; a bare KEY takes its value from the caller's own environment, so that it stays out of process lists. */
export function parseVariables(
  option: string,
  texts: readonly string[] | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  return parsePairs(
    option,
    texts?.map((text) => {
      if (text.includes("=")) return text;
      const value = env[text];
      if (value === undefined) throw usageFailure(`${option} ${text}: there is no such variable in your environment.`);
      return `${text}=${value}`;
    }),
  );
}

/** A duration such as `90s`; undefined when the option is absent. */
export function parseTimeoutMs(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const durationMs = parseDurationMs(text);
  if (durationMs !== undefined && durationMs > 0 && durationMs <= timeoutMaxMs) return durationMs;
  throw usageFailure(`${option} takes a duration such as 90s, 5m or 2h, at most 24d, not ${text}.`);
}
