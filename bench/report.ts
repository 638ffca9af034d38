// What a benchmark run prints and the JSON file it leaves.
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";

/** A measured value, what it is compared with, and the goal it was set. */
export type Result = {
  name: string;
  unit: string;
  /** Measured figures by label, e.g. `{ median: 0.4, p99: 1.1 }`. */
  measured: Record<string, number>;
  /** The bare baseline of the same run, if the goal is a ratio or a difference. */
  baseline?: Record<string, number>;
  goal: string;
  /** The figure the goal speaks of. */
  value: number;
  met: boolean;
  /** How far away, and why, when the goal is missed; or what the physical limit is. */
  note?: string;
};

export function printResult(result: Result): void {
  const figures = (record: Record<string, number>): string =>
    Object.entries(record)
      .map(([label, figure]) => `${label} ${round(figure)}`)
      .join("  ");
  console.log(`\n${result.met ? "met   " : "MISSED"} ${result.name}`);
  console.log(`       measured  ${figures(result.measured)} ${result.unit}`);
  if (result.baseline !== undefined) console.log(`       baseline  ${figures(result.baseline)} ${result.unit}`);
  console.log(`       goal      ${result.goal}: ${round(result.value)}`);
  if (result.note !== undefined) console.log(`       note      ${result.note}`);
}

/** Writes all results with the machine they were measured on; returns the path. */
export function writeResults(directory: string, results: readonly Result[]): string {
  mkdirSync(directory, { recursive: true });
  const now = new Date();
  const machine = {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memoryMb: Math.round(totalmem() / 1024 / 1024),
    kernel: release(),
    node: process.version,
  };
  const path = join(directory, `${now.toISOString().replace(/[:.]/g, "-")}.json`);
  writeFileSync(path, `${JSON.stringify({ time: now.toISOString(), machine, results }, undefined, 2)}\n`);
  return path;
}

export function round(figure: number): number {
  return Number(figure.toPrecision(4));
}
