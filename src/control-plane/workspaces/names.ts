// Names a workspace must not have: they would be mistaken for a part of the platform's own addresses, or for its maker's.
import type { UnavailabilityReason } from "../../contract/workspace.ts";

const reserved = new Set(
  `account admin api app assets audit auth catnap console default docs health internal login logout metrics none null oauth
  operator port public root run sandbox sandboxes static status support system undefined workspace workspaces www`.split(
    /\s+/,
  ),
);

/** Undefined when nothing forbids it. */
export function forbiddenReason(name: string): Exclude<UnavailabilityReason, "taken"> | undefined {
  if (/^v\d+$/.test(name) || /^v\d+-/.test(name)) return "forbidden_v_prefix";
  if (name.includes("blaxel")) return "forbidden_blaxel";
  return reserved.has(name) ? "forbidden_reserved" : undefined;
}

export const reasonMessages: Readonly<Record<UnavailabilityReason, string>> = {
  taken: "There is a workspace with this name already.",
  forbidden_reserved: "This name is reserved.",
  forbidden_blaxel: "A workspace's name must not contain the word blaxel.",
  forbidden_v_prefix: "A workspace's name must not begin like a version, such as v0.",
};
