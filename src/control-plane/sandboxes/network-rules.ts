// Rules for the network of a sandbox (spec 2.8): destinations, modes, and proxy rules whose references to secrets must lead somewhere.
import type { SandboxNetworkInput } from "../../contract/sandbox-network.ts";
import { destinationRule, isDestination } from "../../core/destination.ts";
import { isName } from "../../core/names.ts";
import { refuse, requireDifferent } from "./refuse.ts";

const everything = "*";
const modes = ["dedicated", "shared"];
const secretName = /^[A-Za-z0-9_.-]{1,128}$/;
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/;
/** Either half of a reference, and what stands between both. */
const references = /\{\{SECRET:([^{}]*)\}\}/g;
/** These say how a message is carried; a rule that set one would change which message arrives. */
const carryingHeaders = [
  "connection",
  "content-length",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

type Proxy = NonNullable<SandboxNetworkInput["proxy"]>;
type Target = NonNullable<Proxy["routing"]>[number];
type Egress = NonNullable<SandboxNetworkInput["egress"]>;

export function requireNetwork({ subnet, egress, firewall, proxy, ...network }: SandboxNetworkInput): void {
  const field = "spec.network";
  if (subnet !== undefined) requireResourceName(`${field}.subnet`, subnet);
  if (egress !== undefined) requireEgress(`${field}.egress`, egress);
  requireDifferent(firewall?.rulesets ?? [], (index) => `${field}.firewall.rulesets[${index}]`);
  requireDestinations(`${field}.allowedDomains`, network.allowedDomains);
  requireDestinations(`${field}.forbiddenDomains`, network.forbiddenDomains);
  if (proxy === undefined) return;
  for (const name of ["allowedDomains", "forbiddenDomains", "bypass"] as const) {
    requireDestinations(`${field}.proxy.${name}`, proxy[name]);
  }
  for (const [index, target] of (proxy.routing ?? []).entries()) {
    requireTarget(`${field}.proxy.routing[${index}]`, target);
  }
}

/** Subnets, VPCs and gateways are named like every resource. */
export function requireResourceName(field: string, name: string): void {
  if (!isName(name)) refuse(field, "must be at most 49 lowercase letters, digits and inner hyphens");
}

function requireEgress(field: string, { gateway, mode, policies }: Egress): void {
  if (gateway !== undefined) requireResourceName(`${field}.gateway`, gateway);
  requireMode(`${field}.mode`, mode);
  for (const [index, policy] of (policies ?? []).entries()) {
    requireDestinations(`${field}.policies[${index}].destinations`, policy.destinations);
    requireMode(`${field}.policies[${index}].mode`, policy.mode);
  }
}

function requireMode(field: string, mode: string | undefined): void {
  if (mode !== undefined && !modes.includes(mode)) refuse(field, `must be one of ${modes.join(", ")}`);
}

function requireDestinations(field: string, destinations: readonly string[] | undefined): void {
  for (const [index, text] of (destinations ?? []).entries()) {
    if (text !== everything && !isDestination(text)) refuse(`${field}[${index}]`, `must be ${destinationRule}`);
  }
  requireDifferent(
    (destinations ?? []).map((text) => text.toLowerCase()),
    (index) => `${field}[${index}]`,
  );
}

function requireTarget(field: string, { destinations = [], headers = {}, body = {}, secrets = {} }: Target): void {
  if (destinations.length === 0) refuse(`${field}.destinations`, "must name at least one destination, or * for all");
  requireDestinations(`${field}.destinations`, destinations);
  if (destinations.length > 1 && destinations.includes(everything)) {
    refuse(`${field}.destinations`, "must be * alone, or destinations without it");
  }
  for (const name of Object.keys(secrets)) {
    if (!secretName.test(name))
      refuse(`${field}.secrets`, "must have keys of 1 to 128 letters, digits, dots, dashes and underscores");
  }
  requireHeaders(`${field}.headers`, headers);
  for (const name of Object.keys(body)) if (name === "") refuse(`${field}.body`, "must have keys that are not empty");
  requireReferences(`${field}.headers`, headers, secrets);
  requireReferences(`${field}.body`, body, secrets);
}

function requireHeaders(field: string, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!headerName.test(name)) refuse(field, "must have keys that are names of HTTP headers");
    if (carryingHeaders.includes(name.toLowerCase()))
      refuse(`${field}.${name}`, "must not be set: it carries the message");
    if (/[\0\r\n]/.test(value)) refuse(`${field}.${name}`, "must be one line");
  }
}

/** Every `{{SECRET:name}}` names one of the rule's own secrets, and nothing looks like one without being one. */
function requireReferences(
  field: string,
  texts: Readonly<Record<string, string>>,
  secrets: Readonly<Record<string, string>>,
): void {
  for (const [key, text] of Object.entries(texts)) {
    const member = `${field}.${key.slice(0, 100)}`;
    for (const [, name = ""] of text.matchAll(references)) {
      if (!Object.hasOwn(secrets, name)) {
        refuse(member, `must refer to one of the rule's secrets: there is no ${JSON.stringify(name.slice(0, 100))}`);
      }
    }
    if (text.replaceAll(references, "").includes("{{SECRET:"))
      refuse(member, "must write references as {{SECRET:name}}");
  }
}
