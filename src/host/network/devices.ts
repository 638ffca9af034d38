// The pair of virtual devices between the machine and a sandbox, as commands for `ip -batch`.
import { createHash } from "node:crypto";
import type { AddressRange } from "./addresses.ts";

/** Both ends have fixed hardware addresses: each side knows the other without asking, so no ARP is ever needed or answered. */
const hostMac = "02:ca:79:00:00:01";
const sandboxMac = "02:ca:79:00:00:02";

export type DeviceOptions = {
  id: string;
  /** Name on the machine's side. */
  device: string;
  address: string;
  range: AddressRange;
  mtu: number;
  /** A process in the sandbox's network namespace. */
  pid: number;
};

const nameMaxLength = 15;
const aliasPrefix = "catnap ";

/** The kernel allows 15 characters, fewer than an id may have: a digest of the id stands for it, the alias holds it whole. */
export function deviceName(prefix: string, id: string): string {
  const digest = BigInt(`0x${createHash("sha256").update(id).digest("hex").slice(0, 24)}`).toString(36);
  return prefix + digest.slice(0, nameMaxLength - prefix.length);
}

export function aliasOf(id: string): string {
  return `${aliasPrefix}${id}`;
}

export function idOfAlias(alias: string): string | undefined {
  return alias.startsWith(aliasPrefix) ? alias.slice(aliasPrefix.length).trim() : undefined;
}

/**
 * Run on the machine. One queue a device is enough for one sandbox and saves memory. The route is added, not replaced: should another
 * daemon have taken the address meanwhile, the command fails.
 */
export function hostBatch({ id, device, address, mtu, pid }: DeviceOptions): string {
  const queues = `numtxqueues 1 numrxqueues 1 mtu ${mtu}`;
  return [
    `link add ${device} ${queues} address ${hostMac} type veth peer name eth0 ${queues} address ${sandboxMac} netns ${pid}`,
    `link set ${device} alias "${aliasOf(id)}" addrgenmode none`,
    `link set ${device} up`,
    `neigh add ${address} lladdr ${sandboxMac} dev ${device} nud permanent`,
    `route add ${address}/32 dev ${device}`,
    "",
  ].join("\n");
}

/** Run in the sandbox's network namespace. */
export function sandboxBatch({ address, range }: DeviceOptions): string {
  return [
    "link set lo up",
    `addr add ${address}/32 dev eth0`,
    "link set eth0 up",
    `neigh add ${range.gateway} lladdr ${hostMac} dev eth0 nud permanent`,
    `route add ${range.gateway}/32 dev eth0 scope link`,
    `route add default via ${range.gateway} dev eth0 src ${address}`,
    "",
  ].join("\n");
}
