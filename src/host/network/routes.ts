// Reads the machine's IPv4 routes: which addresses are taken, and through which device the rest of the world is reached.
import { readFileSync } from "node:fs";
import { formatAddress } from "./addresses.ts";

export type Route = { device: string; destination: string; prefixLength: number };

export function readRoutes(): Route[] {
  return parseRoutes(readFileSync("/proc/net/route", "utf8"));
}

/** The file writes numbers as little-endian hexadecimal. */
export function parseRoutes(text: string): Route[] {
  const routes: Route[] = [];
  for (const line of text.split("\n").slice(1)) {
    const fields = line.split("\t");
    if (fields.length < 8) continue;
    const mask = hexToNumber(fields[7]!);
    routes.push({
      device: fields[0]!,
      destination: formatAddress(hexToNumber(fields[1]!)),
      prefixLength: mask === 0 ? 0 : 32 - Math.log2(2 ** 32 - mask),
    });
  }
  return routes;
}

function hexToNumber(littleEndian: string): number {
  return Buffer.from(littleEndian, "hex").reverse().readUInt32BE(0);
}
