// Reads settings: a record of texts by the name of their environment variable becomes checked values, or an error that names the variable.
import { parseDurationMs } from "./duration.ts";
import { AppError } from "./errors.ts";

export type Settings = Readonly<Record<string, string | undefined>>;

/** An empty text counts as absent in every reader here, because shells and unit files leave such behind. */
export function readText(settings: Settings, name: string): string | undefined {
  return settings[name] || undefined;
}

export function readInteger(
  settings: Settings,
  name: string,
  fallback: number,
  range: { min: number; max: number },
): number {
  const text = readText(settings, name);
  if (text === undefined) return fallback;
  const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.min && value <= range.max) return value;
  throw invalidSetting(name, `a whole number from ${range.min} to ${range.max}`);
}

/** Milliseconds; zero is refused. Besides the specification's units an operator may use `ms`. */
export function readDurationMs(settings: Settings, name: string, fallback: string): number {
  const text = readText(settings, name) ?? fallback;
  const durationMs = /^\d{1,12}ms$/.test(text) ? Number.parseInt(text, 10) : parseDurationMs(text);
  if (durationMs === undefined || durationMs === 0) throw invalidSetting(name, "a duration such as 15s, 2m or 7d");
  return durationMs;
}

/** Items separated by commas. */
export function readList(settings: Settings, name: string, fallback: string): string[] {
  return (readText(settings, name) ?? fallback)
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** The value itself is not repeated: a setting may hold a secret put in the wrong place. */
export function invalidSetting(name: string, rule: string): AppError {
  return new AppError("invalid_request", `${name} must be ${rule}`);
}
