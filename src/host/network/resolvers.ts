// The name servers sandboxes use: the machine's own, and where those are on its loopback, the ones behind them.
import { readFileSync } from "node:fs";
import { isIPv4 } from "node:net";

/** systemd-resolved keeps the servers it forwards to in the second file, while the first names its own loopback address. */
const defaultFiles = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/** IPv4 servers of the first file that names any off the loopback; at most three, which is what the C library reads. */
export function findResolvers(files: readonly string[] = defaultFiles): string[] {
  for (const file of files) {
    const servers = parseNameservers(readText(file)).filter((server) => isIPv4(server) && !server.startsWith("127."));
    if (servers.length > 0) return servers.slice(0, 3);
  }
  return [];
}

export function parseNameservers(text: string): string[] {
  return text
    .split("\n")
    .map((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1])
    .filter((server) => server !== undefined);
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
