// The packet filter of the sandboxes, as text for nft: rules match the daemon's devices by a common beginning of their names,
// so that no sandbox needs a rule of its own.

export type RuleOptions = {
  /** Name of this daemon's tables. */
  table: string;
  /** What the names of this daemon's devices begin with. */
  devicePrefix: string;
  cidr: string;
  resolvers: readonly string[];
  connectionsMax: number;
};

/** Addresses that are not the internet: this network, private, shared, loopback, link-local, special, multicast and reserved. */
export const notInternet: readonly string[] = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/4",
  "240.0.0.0/4",
];

/**
 * One transaction that replaces this daemon's tables and leaves all others alone. A packet of a sandbox passes only with the
 * sandbox's own address as its source (the route back to it leads through the device it came from) and only towards the internet
 * or a name server; the machine itself is never reached, whichever of its addresses is asked. What is refused is answered, so that
 * a program inside fails at once instead of waiting for its own timeout.
 */
export function rulesText({ table, devicePrefix, cidr, resolvers, connectionsMax }: RuleOptions): string {
  const sandboxes = `"${devicePrefix}*"`;
  const elements = resolvers.length === 0 ? "" : `elements = { ${resolvers.join(", ")} }`;
  return `
table inet ${table}
delete table inet ${table}
table inet ${table} {
  set not_internet { type ipv4_addr; flags interval; elements = { ${notInternet.join(", ")} } }
  set resolvers { type ipv4_addr; ${elements} }
  set connections { type ipv4_addr; size 65535; flags dynamic; }
  chain refuse {
    meta nfproto ipv4 fib saddr . iif oif exists reject with icmp admin-prohibited
    drop
  }
  chain from_sandbox {
    meta nfproto != ipv4 drop
    fib saddr . iif oif missing drop
    ct state established,related accept
    ct state invalid drop
    add @connections { ip saddr ct count over ${connectionsMax} } goto refuse
    ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 accept
    ip daddr @not_internet goto refuse
    oifname ${sandboxes} goto refuse
    accept
  }
  chain to_sandbox {
    ct state established,related accept
    drop
  }
  chain forward {
    type filter hook forward priority filter - 5; policy accept;
    iifname ${sandboxes} jump from_sandbox
    oifname ${sandboxes} jump to_sandbox
  }
  chain input {
    type filter hook input priority filter - 5; policy accept;
    iifname ${sandboxes} ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 fib saddr . iif oif exists accept
    iifname ${sandboxes} goto refuse
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    iifname ${sandboxes} ip saddr ${cidr} masquerade
  }
}
`;
}
