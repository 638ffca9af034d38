// Where requests to the outside may go: public addresses over TLS, and whatever hosts the operator allows.
import type { LookupAddress } from "node:dns";
import { lookup, Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { isPublicAddress } from "../../core/public-address.ts";
import { OutgoingError } from "./failure.ts";

export type FindAddresses = (host: string) => Promise<LookupAddress[]>;

export type OutgoingPolicyOptions = {
  /** `host` or `host:port` as URLs write them: reachable whatever the address is, and over plain HTTP. */
  allowedHosts: readonly string[];
  /** Instead of the machine's resolver, for tests. */
  findAddresses?: FindAddresses;
};

const urlMaxLength = 2_048;
/** Below these lie services that were never meant for strangers' requests. */
const unprivilegedPort = 1_024;
const resolveTimeoutMs = 2_000;
const resolveTries = 2;
/** A name may have any number of addresses; connecting tries them one after the other. */
const addressesMax = 8;

export class OutgoingPolicy {
  readonly #allowedHosts: ReadonlySet<string>;
  readonly #findAddresses: FindAddresses | undefined;

  constructor({ allowedHosts, findAddresses }: OutgoingPolicyOptions) {
    this.#allowedHosts = new Set(allowedHosts);
    this.#findAddresses = findAddresses;
  }

  /** Throws `invalid_url` unless the URL may be asked, as far as can be told without asking for its host's addresses. */
  requireUrl(text: string): URL {
    const url = text.length <= urlMaxLength && URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
      throw new OutgoingError("invalid_url", `must be an absolute https URL of at most ${urlMaxLength} characters`);
    }
    if (url.username !== "" || url.password !== "")
      throw new OutgoingError("invalid_url", "must not carry credentials");
    const host = hostOf(url);
    const port = portOf(url);
    if (this.isAllowed(host, port)) return url;
    if (url.protocol !== "https:")
      throw new OutgoingError("invalid_url", "must be https: the operator allows no other way to this host");
    if (port !== 443 && port < unprivilegedPort) {
      throw new OutgoingError("invalid_url", `must have the port 443 or one from ${unprivilegedPort}`);
    }
    if (isIP(host) !== 0 && !isPublicAddress(host))
      throw new OutgoingError("invalid_url", "must not lead to an address inside");
    return url;
  }

  isAllowed(host: string, port: number): boolean {
    const inUrl = isIP(host) === 6 ? `[${host}]` : host;
    return this.#allowedHosts.has(inUrl) || this.#allowedHosts.has(`${inUrl}:${port}`);
  }

  /** The addresses that a connection may be made to, and no others; throws `no_public_address` when there is none. */
  async resolve(host: string, port: number): Promise<LookupAddress[]> {
    const allowed = this.isAllowed(host, port);
    const found = await this.#find(host, allowed).catch((error: unknown) => {
      throw new OutgoingError("no_public_address", "has no public address", error);
    });
    const usable = allowed ? found : found.filter(({ address }) => isPublicAddress(address));
    if (usable.length === 0) throw new OutgoingError("no_public_address", "has no public address");
    return usable.slice(0, addressesMax);
  }

  /** Hosts of the operator may be known to this machine only. Others are asked for in a way that occupies no thread while it waits. */
  async #find(host: string, allowed: boolean): Promise<LookupAddress[]> {
    const family = isIP(host);
    if (family !== 0) return [{ address: host, family }];
    if (this.#findAddresses !== undefined) return this.#findAddresses(host);
    return allowed ? lookup(host, { all: true }) : askNameServers(host);
  }
}

async function askNameServers(host: string): Promise<LookupAddress[]> {
  const resolver = new Resolver({ timeout: resolveTimeoutMs, tries: resolveTries });
  const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  if (ipv4.status === "rejected" && ipv6.status === "rejected") throw ipv4.reason;
  return [
    ...(ipv4.status === "fulfilled" ? ipv4.value : []).map((address) => ({ address, family: 4 })),
    ...(ipv6.status === "fulfilled" ? ipv6.value : []).map((address) => ({ address, family: 6 })),
  ];
}

/** Without the brackets of an IPv6 address. */
export function hostOf({ hostname }: URL): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

export function portOf({ protocol, port }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}
