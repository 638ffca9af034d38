// Formats and parses sandbox addresses: the host form `sbx-{name}-{workspaceId}.{region}.{domain}` and the path form (spec, addresses).

export type AddressSettings = {
  /** Origin that serves the path form, without a trailing slash, e.g. `http://127.0.0.1:4000/run`. */
  inferenceUrl: string;
  /** Domain of the host form; undefined when none is configured. */
  sandboxDomain: string | undefined;
  /** Scheme and port of host-form URLs, from the public base URL. */
  scheme: "http" | "https";
  port: number | undefined;
};

export type SandboxAddress = { workspace: string; sandboxName: string; region: string };

/** `metadata.url` of a sandbox: the host form when a domain is configured, else the path form. */
export function formatSandboxUrl(
  settings: AddressSettings,
  { workspace, workspaceId, sandboxName, region }: SandboxAddress & { workspaceId: string },
): string {
  if (settings.sandboxDomain === undefined) return `${settings.inferenceUrl}/${workspace}/sandboxes/${sandboxName}`;
  const port = settings.port === undefined ? "" : `:${settings.port}`;
  return `${settings.scheme}://sbx-${sandboxName}-${workspaceId}.${region}.${settings.sandboxDomain}${port}`;
}

/** Splits a path-form URL path into its sandbox and the rest, which begins with a slash; the rest is kept byte for byte. */
export function parsePathAddress(
  url: string,
  prefix: string,
): { workspace: string; sandboxName: string; rest: string } | undefined {
  if (!url.startsWith(`${prefix}/`)) return undefined;
  const match = /^\/([a-z0-9-]{1,63})\/sandboxes\/([a-z0-9-]{1,49})(?=[/?]|$)/.exec(url.slice(prefix.length));
  if (match === null) return undefined;
  const rest = url.slice(prefix.length + match[0].length);
  return { workspace: match[1]!, sandboxName: match[2]!, rest: rest.startsWith("/") ? rest : `/${rest}` };
}

/** Reads a Host header in host form; undefined when it is not one of the domain's. */
export function parseHostAddress(
  host: string,
  sandboxDomain: string,
): { sandboxName: string; workspaceId: string; region: string } | undefined {
  // A dot at the end says that a name is complete, and is no part of it.
  const name = host.toLowerCase().replace(/\.?(?::\d{1,5})?$/, "");
  if (!name.endsWith(`.${sandboxDomain}`)) return undefined;
  const match = /^sbx-([a-z0-9-]{1,49})-([a-z0-9]{1,9})\.([a-z0-9-]{1,63})$/.exec(
    name.slice(0, -sandboxDomain.length - 1),
  );
  if (match === null) return undefined;
  return { sandboxName: match[1]!, workspaceId: match[2]!, region: match[3]! };
}
