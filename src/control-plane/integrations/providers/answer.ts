// Reads members of a service's answer: each is what it should be, or absent; nothing else of the answer is kept.
import { UnexpectedAnswer } from "./provider.ts";

export type Members = Readonly<Record<string, unknown>>;

const textMaxLength = 256;
const contextWindowMax = 1_000_000_000;

export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

/** The list that an answer is about; throws when there is none. */
export function listOf(answer: unknown, key: string): Members[] {
  const list = membersOf(answer)[key];
  if (!Array.isArray(list)) throw new UnexpectedAnswer(`answered without a list of ${key}`);
  return list.map(membersOf);
}

/** A short text without control characters. */
export function textOf(value: unknown): string | undefined {
  if (typeof value !== "string" || value === "" || value.length > textMaxLength || /\p{C}/u.test(value))
    return undefined;
  return value;
}

export function tokensOf(...values: unknown[]): number | undefined {
  for (const value of values) {
    const number = typeof value === "string" && /^\d{1,10}$/.test(value) ? Number(value) : value;
    if (typeof number === "number" && number >= 1 && number <= contextWindowMax) return Math.floor(number);
  }
  return undefined;
}

/** ISO 8601 of seconds since 1970 or of a date as text. Services that do not know a date give the beginning of 1970. */
export function timeOf(value: unknown): string | undefined {
  const text = typeof value === "string" && value.length <= 64 ? Date.parse(value) : Number.NaN;
  const timeMs = typeof value === "number" ? value * 1_000 : text;
  if (!(timeMs > 0 && timeMs < 8.64e15)) return undefined;
  return new Date(timeMs).toISOString();
}
