// What the network of sandboxes needs of the machine: its packet filter, and that nothing else on it drops what sandboxes send.
import { type Check, note, ok, problem } from "./check.ts";
import type { Probes } from "./probes.ts";

const directions = ["iifname", "oifname"];

/** What the platform's own rules are made of; only tried, never kept. */
const triedRules = `
table inet catnap_doctor {
  set counted { type ipv4_addr; size 16; flags dynamic; }
  chain tried {
    type filter hook forward priority filter; policy accept;
    fib saddr . iif oif missing drop
    ct state invalid drop
    add @counted { ip saddr ct count over 4096 } reject with icmp admin-prohibited
  }
  chain translated {
    type nat hook postrouting priority srcnat; policy accept;
    masquerade
  }
}
`;

export const checkNftables: Check = async ({ findProgram, runProgram, userId }) => {
  const nft = findProgram("nft");
  if (nft === undefined) return problem("nftables", "the program nft is missing", "apt-get install --yes nftables");
  if (userId !== 0) return note("nftables", "only root can tell whether the kernel has it");
  const tried = await runProgram(nft, ["--check", "-f", "-"], { input: triedRules });
  const remedy = "modprobe -a nf_tables nft_fib_inet nft_connlimit nft_masq nft_reject_inet";
  return "output" in tried ? ok("nftables", "works") : problem("nftables", `does not work: ${tried.failure}`, remedy);
};

export const checkForwarding: Check = ({ readFile }) =>
  (readFile("/proc/sys/net/ipv4/ip_forward") ?? "").trim() === "1"
    ? ok("ip forwarding", "on")
    : note("ip forwarding", "off; the platform switches it on when it starts");

/** An accept of the platform's does not overrule a drop elsewhere, such as the one Docker or a firewall sets. */
export const checkForwardPolicy: Check = async (probes) => {
  const { findProgram, runProgram, userId } = probes;
  const name = "forwarding rules";
  const nft = findProgram("nft");
  if (nft === undefined || userId !== 0) return note(name, "only root with nft can tell what they drop");
  const listed = await runProgram(nft, ["list", "ruleset"]);
  if ("failure" in listed) return note(name, "cannot be listed");
  const dropping = findDroppingChain(listed.output);
  const remedy =
    dropping === undefined
      ? await legacyRemedy(probes)
      : isLetThrough(listed.output)
        ? undefined
        : nftRemedy(listed.output, dropping);
  if (remedy === undefined) return ok(name, "let sandboxes through");
  return problem(name, `${dropping ?? "iptables-legacy"} drops what sandboxes send: they have no network`, remedy);
};

/** Rules of the older kind are not in nft's list; the file is there when somebody has set some. */
async function legacyRemedy({ readFile, findProgram, runProgram }: Probes): Promise<string | undefined> {
  const iptables = findProgram("iptables-legacy");
  if (iptables === undefined || !/^filter$/m.test(readFile("/proc/net/ip_tables_names") ?? "")) return undefined;
  const listed = await runProgram(iptables, ["-S"]);
  if ("failure" in listed || !/^-P FORWARD DROP$/m.test(listed.output)) return undefined;
  if (/ -i cn\+ -j ACCEPT$/m.test(listed.output) && / -o cn\+ -j ACCEPT$/m.test(listed.output)) return undefined;
  return ["-i", "-o"].map((direction) => `iptables-legacy -I FORWARD ${direction} cn+ -j ACCEPT`).join(" && ");
}

/** Family, table and chain of the first base chain that drops forwarded packets which no rule accepts. */
function findDroppingChain(rules: string): string | undefined {
  let table = "";
  let chain = "";
  for (const line of rules.split("\n")) {
    table = /^table (\S+ \S+) \{/.exec(line)?.[1] ?? table;
    chain = /^\s+chain (\S+) \{/.exec(line)?.[1] ?? chain;
    if (/^\s+type filter hook forward .*policy drop;/.test(line)) return `${table} ${chain}`;
  }
  return undefined;
}

/** Whether somebody has put in the rules of `nftRemedy`; devices of sandboxes begin with `cn`. */
function isLetThrough(rules: string): boolean {
  return directions.every((direction) => new RegExp(`^\\s+${direction} "cn\\*".* accept$`, "m").test(rules));
}

function nftRemedy(rules: string, dropping: string): string {
  // Docker leaves this chain to the operator and looks into it first.
  const chain = /^\s+chain DOCKER-USER \{/m.test(rules) ? "ip filter DOCKER-USER" : dropping;
  return directions.map((direction) => `nft insert rule ${chain} ${direction} 'cn*' accept`).join(" && ");
}
