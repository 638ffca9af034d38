// The settings of requests to the outside.
import { invalidSetting, readList, type Settings } from "../../core/settings.ts";
import type { OutgoingOptions } from "./outgoing.ts";

const name = "CATNAP_OUTGOING_ALLOWED_HOSTS";

export function readOutgoingConfig(settings: Settings): OutgoingOptions {
  return { allowedHosts: readList(settings, name, "").map(readHost) };
}

/** As URLs write it: in lower case, IPv6 addresses in their shortest form. */
function readHost(text: string): string {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/.exec(text);
  const url = match === null ? undefined : `http://${match[1]}/`;
  if (match === null || url === undefined || !URL.canParse(url) || Number(match[2] ?? 1) > 65_535) {
    throw invalidSetting(name, "a list of host or host:port, with IPv6 addresses in brackets");
  }
  const { hostname } = new URL(url);
  return match[2] === undefined ? hostname : `${hostname}:${match[2]}`;
}
