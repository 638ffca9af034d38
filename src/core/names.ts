// Rules for names and the names the platform makes up (spec 2.2 and section 8).
import { randomToken } from "./ids.ts";

export const nameMaxLength = 49;
export const externalIdMaxLength = 64;
export const displayNameMaxLength = 63;

const namePattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;

/** Whether a text is a resource name: lowercase alphanumeric with inner hyphens, at most 49 characters. */
export function isName(text: string): boolean {
  return text.length <= nameMaxLength && namePattern.test(text);
}

/** Whether a text is an external id: letters, digits and dashes, at most 64 of them. */
export function isExternalId(text: string): boolean {
  return text.length <= externalIdMaxLength && /^[A-Za-z0-9-]+$/.test(text);
}

/** A name for a resource created without one, e.g. `sandbox-k3v9x2mq`. */
export function generateName(prefix: string): string {
  return `${prefix}-${randomToken(8)}`;
}
