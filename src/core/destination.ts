// Where traffic may be meant for, as rules name it: a domain, a domain with everything below it, or an address.
import { isIP } from "node:net";

const hostMaxLength = 253;
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/i;

/** Completes "<field> must be ...". */
export const destinationRule = "a domain, a wildcard such as *.example.com, or an IP address";

/** Whether a text is `example.com`, `*.example.com` or an IP address; a wildcard stands for whole labels at the beginning only. */
export function isDestination(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const domain = text.startsWith("*.") ? text.slice(2) : text;
  if (domain.length > hostMaxLength) return false;
  const labels = domain.split(".");
  // What ends in a number is a mistyped address: no top-level domain does.
  return labels.every((one) => label.test(one)) && !/^\d+$/.test(labels.at(-1) ?? "");
}
