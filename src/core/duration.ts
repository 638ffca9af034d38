// Durations as the specification writes them: a whole number and one unit, `s`, `m`, `h`, `d` or `w` (spec 2.4).
const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Milliseconds of a text such as `15s` or `7d`, or undefined when it is not one or exceeds a safe integer. */
export function parseDurationMs(text: string): number | undefined {
  const match = /^(\d{1,12})([smhdw])$/.exec(text);
  if (match === null) return undefined;
  const durationMs = Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
  return Number.isSafeInteger(durationMs) ? durationMs : undefined;
}
