// Tells a person at a terminal how far a long copy is; says nothing to a file or a pipe, nor about a copy that is quick.
import type { TerminalStream } from "../context.ts";
import { formatBytes } from "../format.ts";

const quietMs = 1_000;
const intervalMs = 100;
const barWidth = 24;

export type Progress = Disposable & {
  /** May be negative, when bytes are sent again. */
  add(bytes: number): void;
  expect(bytes: number): void;
};

export function startProgress(stream: TerminalStream, label: string): Progress {
  const startedAtMs = performance.now();
  let doneBytes = 0;
  let totalBytes = 0;
  let shown = false;
  const draw = (): void => {
    const elapsedMs = performance.now() - startedAtMs;
    if (elapsedMs < quietMs) return;
    shown = true;
    stream.write(
      `\r\u001b[K${progressLine({ label, doneBytes, totalBytes, elapsedMs }).slice(0, (stream.columns || 80) - 1)}`,
    );
  };
  const timer = stream.isTTY === true ? setInterval(draw, intervalMs).unref() : undefined;
  return {
    add(bytes) {
      doneBytes += bytes;
    },
    expect(bytes) {
      totalBytes += bytes;
    },
    [Symbol.dispose]() {
      clearInterval(timer);
      if (shown) stream.write("\r\u001b[K");
    },
  };
}

export function progressLine(state: {
  label: string;
  doneBytes: number;
  totalBytes: number;
  elapsedMs: number;
}): string {
  const { label, doneBytes, totalBytes, elapsedMs } = state;
  const part = totalBytes === 0 ? 1 : Math.min(1, doneBytes / totalBytes);
  const filled = Math.round(part * barWidth);
  const bar = `${"█".repeat(filled)}${"░".repeat(barWidth - filled)}`;
  const speed = formatBytes((doneBytes / Math.max(1, elapsedMs)) * 1_000);
  return `${label} ${bar} ${Math.floor(part * 100)}%  ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}  ${speed}/s`;
}
