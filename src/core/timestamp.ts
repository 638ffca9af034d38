// Points in time as callers write them: ISO 8601 with date, time and time zone, and nothing that a calendar does not have.
const pattern = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d{2}):(\d{2}))$/;

/** Completes "<field> must be ...". */
export const timestampRule = "an ISO 8601 date and time with a time zone, such as 2030-01-31T12:00:00Z";

/** Milliseconds since 1970 of a text such as `2030-01-31T12:00:00.5+02:00`, or undefined when it is not one. */
export function parseTimestampMs(text: string): number | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [year, month, day, hour, minute] = match.slice(1, 6).map(Number) as [number, number, number, number, number];
  const second = Number(match[6] ?? 0);
  const [offsetHour, offsetMinute] = [Number(match[9] ?? 0), Number(match[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  // 31 February would have become another day.
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const fractionMs = Number((match[7] ?? "").padEnd(3, "0").slice(0, 3));
  date.setUTCHours(hour, minute, second, fractionMs);
  const offsetMs = (offsetHour * 60 + offsetMinute) * 60_000;
  return date.getTime() + (match[8] === "-" ? offsetMs : -offsetMs);
}
