// What one check of the doctor is asked and answers.
import type { Probes } from "./probes.ts";

/** `note` is worth knowing but keeps nothing from working. */
export type CheckStatus = "ok" | "note" | "problem";
export type CheckResult = { name: string; status: CheckStatus; found: string; remedy?: string };

export type Installation = {
  dataDir: string;
  imageDir: string;
  guestBinary: string;
  ociRuntime: string;
  host: string;
  port: number;
};

export type Check = (probes: Probes, installation: Installation) => CheckResult | Promise<CheckResult>;

export function ok(name: string, found: string): CheckResult {
  return { name, status: "ok", found };
}

export function note(name: string, found: string): CheckResult {
  return { name, status: "note", found };
}

export function problem(name: string, found: string, remedy: string): CheckResult {
  return { name, status: "problem", found, remedy };
}
