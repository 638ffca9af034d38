// Which network addresses belong to the internet at large: pulling an image must not reach into this machine or its neighbourhood.
import { BlockList, isIP, isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";

const innerRanges: [string, number, "ipv4" | "ipv6"][] = [
  ["0.0.0.0", 8, "ipv4"],
  ["10.0.0.0", 8, "ipv4"],
  ["100.64.0.0", 10, "ipv4"],
  ["127.0.0.0", 8, "ipv4"],
  ["169.254.0.0", 16, "ipv4"],
  ["172.16.0.0", 12, "ipv4"],
  ["192.0.0.0", 24, "ipv4"],
  ["192.168.0.0", 16, "ipv4"],
  ["198.18.0.0", 15, "ipv4"],
  ["224.0.0.0", 3, "ipv4"],
  // Only 2000::/3 is handed out to the internet; inside it, these carry an IPv4 address or are local.
  ["::", 3, "ipv6"],
  ["4000::", 2, "ipv6"],
  ["8000::", 1, "ipv6"],
  ["2001::", 23, "ipv6"],
  ["2001:db8::", 32, "ipv6"],
  ["2002::", 16, "ipv6"],
];

const inner = new BlockList();
for (const [address, prefix, family] of innerRanges) inner.addSubnet(address, prefix, family);

/** Whether an address is public and not one of this machine's own. Anything that is not an address is not public. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  if (inner.check(address, isIPv4(address) ? "ipv4" : "ipv6")) return false;
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  return !own.some((entry) => entry.address === address);
}
