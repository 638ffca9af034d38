// Formats and parses preview addresses: the host form `{label}.preview.{domain}` and the path form `{inference url}/preview/{label}`.
import { hash } from "node:crypto";
import type { AddressSettings } from "./address.ts";

/** One label of a host name has 63 characters: prefix, hyphen and workspace id share them. */
export const prefixMaxLength = 53;

/** What hosts of sandboxes begin with; a prefix that does could be taken for one. */
export const sandboxHostPrefix = "sbx-";

const alphabet = "abcdefghijklmnopqrstuvwxyz234567";
const madeUpLength = 26;

/**
 * The part of an address that names the preview: the same whenever a preview of this name is made. With a prefix it is
 * `{prefix}-{workspaceId}`, so that no workspace can take another's; without one it is made up and has no hyphen.
 */
export function formatPreviewLabel(
  preview: { workspaceId: string; sandboxName: string; previewName: string },
  prefix: string | undefined,
): string {
  const { workspaceId, sandboxName, previewName } = preview;
  if (prefix !== undefined) return `${prefix}-${workspaceId}`;
  // Names have no slash.
  const digest = hash("sha256", `${workspaceId}/${sandboxName}/${previewName}`, "buffer");
  return Array.from(digest.subarray(0, madeUpLength), (byte) => alphabet[byte % 32]).join("");
}

/** `spec.url` of a preview: the host form when a domain is configured, else the path form. */
export function formatPreviewUrl(settings: AddressSettings, label: string): string {
  if (settings.sandboxDomain === undefined) return `${settings.inferenceUrl}/preview/${label}`;
  const port = settings.port === undefined ? "" : `:${settings.port}`;
  return `${settings.scheme}://${label}.preview.${settings.sandboxDomain}${port}`;
}

export type PreviewAddress = {
  /** Undefined: below the previews' domain, and none. */
  label: string | undefined;
  /** The path below which the preview lives: empty in host form. */
  mountPath: string;
  /** The whole path and query of the application, which begins with a slash, kept byte for byte. */
  rest: string;
};

/** Reads a Host header in host form; every host of the previews' domain is one, whether there is such a preview or not. */
export function parsePreviewHost(host: string, sandboxDomain: string): { label: string | undefined } | undefined {
  // A dot at the end says that a name is complete, and is no part of it.
  const name = host.toLowerCase().replace(/\.?(?::\d{1,5})?$/, "");
  const suffix = `.preview.${sandboxDomain}`;
  if (!name.endsWith(suffix) || name.startsWith(sandboxHostPrefix)) return undefined;
  const label = name.slice(0, -suffix.length);
  return { label: /^[a-z0-9-]{1,63}$/.test(label) ? label : undefined };
}

/** Splits the path of a URL in path form. A label has a hyphen or its made-up length: no sandbox of a workspace `preview` is one. */
export function parsePreviewPath(url: string, pathPrefix: string): PreviewAddress | undefined {
  const base = `${pathPrefix}/preview/`;
  if (!url.startsWith(base)) return undefined;
  const label = /^[a-z0-9-]{1,63}(?=[/?]|$)/.exec(url.slice(base.length))?.[0];
  if (label === undefined || (label.length !== madeUpLength && !label.includes("-"))) return undefined;
  const mountPath = base + label;
  const rest = url.slice(mountPath.length);
  return { label, mountPath, rest: rest.startsWith("/") ? rest : `/${rest}` };
}
