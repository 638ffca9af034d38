// Rules for how long a sandbox lives (spec 2.4 and 2.7): durations, points in time, and policies of both.
import type { SandboxSpecInput } from "../../contract/sandbox-spec.ts";
import { parseDurationMs } from "../../core/duration.ts";
import { parseTimestampMs, timestampRule } from "../../core/timestamp.ts";
import { refuse } from "./refuse.ts";

const lifetimeMin = "1s";
/** A century: no date that follows from it is out of range. */
const lifetimeMax = "5200w";
const [lifetimeMinMs, lifetimeMaxMs] = [parseDurationMs(lifetimeMin) ?? 0, parseDurationMs(lifetimeMax) ?? 0];

type Policy = NonNullable<NonNullable<SandboxSpecInput["lifecycle"]>["expirationPolicies"]>[number];

export function requireLifetime({ runtime, lifecycle }: SandboxSpecInput, now: number): void {
  if (runtime?.ttl !== undefined) requireLifetimeDuration("spec.runtime.ttl", runtime.ttl);
  if (runtime?.expires !== undefined) requireFuture("spec.runtime.expires", runtime.expires, now);
  for (const [index, policy] of (lifecycle?.expirationPolicies ?? []).entries()) {
    requirePolicy(`spec.lifecycle.expirationPolicies[${index}]`, policy, now);
  }
}

function requirePolicy(field: string, { type, value }: Policy, now: number): void {
  if (type === undefined) refuse(`${field}.type`, "is required");
  if (value === undefined) refuse(`${field}.value`, "is required");
  if (type === "date") requireFuture(`${field}.value`, value, now);
  else requireLifetimeDuration(`${field}.value`, value);
}

function requireLifetimeDuration(field: string, text: string): void {
  if (!/^\d{1,12}[smhdw]$/.test(text)) {
    refuse(field, "must be a whole number and one of the units s, m, h, d, w, such as 15m");
  }
  const durationMs = parseDurationMs(text) ?? Number.POSITIVE_INFINITY;
  if (durationMs < lifetimeMinMs) refuse(field, `must be at least ${lifetimeMin}`);
  if (durationMs > lifetimeMaxMs) refuse(field, `must be at most ${lifetimeMax}`);
}

function requireFuture(field: string, text: string, now: number): void {
  const time = parseTimestampMs(text);
  if (time === undefined) refuse(field, `must be ${timestampRule}`);
  if (time <= now) refuse(field, "must be in the future");
}
