// Which network addresses belong to the internet at large: what a caller can make the platform connect to must not be this machine
// or its neighbourhood.
import { BlockList, isIP, isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";

const innerIpv4: [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Where one cloud answers its machines about themselves, in the middle of public addresses.
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];
/** Only 2000::/3 is handed out to the internet; what is named inside it carries an IPv4 address or is not routed. */
const innerIpv6: [string, number][] = [
  ["::", 3],
  ["4000::", 2],
  ["8000::", 1],
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
];

// One list for each family: a list of both would take an IPv4 address for one of the IPv6 range ::ffff:0:0/96.
const ipv4 = new BlockList();
const ipv6 = new BlockList();
for (const [address, prefix] of innerIpv4) ipv4.addSubnet(address, prefix, "ipv4");
for (const [address, prefix] of innerIpv6) ipv6.addSubnet(address, prefix, "ipv6");

/** Whether an address is public and not one of this machine's own. Anything that is not an address is not public. */
export function isPublicAddress(address: string): boolean {
  // An address with a zone is one of a link.
  if (isIP(address) === 0 || address.includes("%")) return false;
  if (isIPv4(address) ? ipv4.check(address, "ipv4") : ipv6.check(address, "ipv6")) return false;
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  return !own.some((entry) => entry.address === address);
}
