// Which network addresses belong to the internet at large: pulling an image must not reach into this machine or its neighbourhood.
import { BlockList, isIP, isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";

const innerIpv4: [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
];
/** Only 2000::/3 is handed out to the internet; inside it, the last three carry an IPv4 address or are not routed. */
const innerIpv6: [string, number][] = [
  ["::", 3],
  ["4000::", 2],
  ["8000::", 1],
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
];

// One list for each family: a list of both would take an IPv4 address for one of the IPv6 range ::ffff:0:0/96.
const ipv4 = new BlockList();
const ipv6 = new BlockList();
for (const [address, prefix] of innerIpv4) ipv4.addSubnet(address, prefix, "ipv4");
for (const [address, prefix] of innerIpv6) ipv6.addSubnet(address, prefix, "ipv6");

/** Whether an address is public and not one of this machine's own. Anything that is not an address is not public. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  if (isIPv4(address) ? ipv4.check(address, "ipv4") : ipv6.check(address, "ipv6")) return false;
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  return !own.some((entry) => entry.address === address);
}
