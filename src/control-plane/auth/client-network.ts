// What limits count by instead of an address.

/** Whoever has one IPv6 address has 2^64 of them. */
export function networkOf(address: string): string {
  if (!address.includes(":") || address.startsWith("::ffff:")) return address;
  const [head = "", tail = ""] = address.split("::");
  const groups = head.split(":").filter(Boolean);
  if (!address.includes("::")) return groups.slice(0, 4).join(":");
  const behind = tail.split(":").filter(Boolean);
  const filled = [...groups, ...Array<string>(Math.max(0, 8 - groups.length - behind.length)).fill("0"), ...behind];
  return filled.slice(0, 4).join(":");
}
