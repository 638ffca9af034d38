// Sizes, durations, ages, sentences and JSON as people read them.

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = -1;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** Three significant digits are enough to compare: `0.4 ms`, `38 ms`, `1.2 s`, `3 min`. */
export function formatDuration(durationMs: number): string {
  if (durationMs < 10) return `${durationMs.toFixed(1)} ms`;
  if (durationMs < 1_000) return `${Math.round(durationMs)} ms`;
  if (durationMs < 120_000) return `${(durationMs / 1_000).toFixed(1)} s`;
  return `${Math.round(durationMs / 60_000)} min`;
}

/** How long ago a timestamp was, in its largest unit; empty when there is none. */
export function formatAge(timestamp: string | undefined, nowMs: number): string {
  const thenMs = timestamp === undefined ? Number.NaN : Date.parse(timestamp);
  if (Number.isNaN(thenMs)) return "";
  const seconds = Math.max(0, Math.floor((nowMs - thenMs) / 1_000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** What `--json` prints: indented, because it is also read. */
export function formatJson(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

export function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
