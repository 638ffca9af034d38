// IPv4 arithmetic for the sandboxes' range, and the choice of a free address in it.
import { createHash } from "node:crypto";
import { AppError } from "../../core/errors.ts";

export type AddressRange = {
  /** First address, the gateway of every sandbox. No device carries it: packets go by the device's hardware address. */
  gateway: string;
  /** Network address as a number. */
  base: number;
  prefixLength: number;
};

export function parseRange(cidr: string): AddressRange {
  const match = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})$/.exec(cidr);
  const address = match === null ? undefined : parseAddress(match[1]!);
  const prefixLength = Number(match?.[2]);
  if (address === undefined || prefixLength < 8 || prefixLength > 29) {
    throw new AppError("invalid_request", `CATNAP_NETWORK_CIDR must look like 10.201.0.0/16, not ${cidr}.`);
  }
  const base = address - (address % 2 ** (32 - prefixLength));
  return { gateway: formatAddress(base + 1), base, prefixLength };
}

export function parseAddress(text: string): number | undefined {
  const parts = text.split(".").map((part) => (/^\d{1,3}$/.test(part) ? Number(part) : 256));
  if (parts.length !== 4 || parts.some((part) => part > 255)) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

export function formatAddress(address: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}

/**
 * A free address for an instance: the id picks where to begin, so that an address is not taken over right after its owner died,
 * and daemons that share a range seldom want the same one. Network, gateway and broadcast address are never chosen.
 */
export function chooseAddress(range: AddressRange, id: string, isTaken: (address: string) => boolean): string {
  const count = 2 ** (32 - range.prefixLength) - 3;
  const start = createHash("sha256").update(id).digest().readUInt32BE(0) % count;
  for (let step = 0; step < count; step++) {
    const address = formatAddress(range.base + 2 + ((start + step) % count));
    if (!isTaken(address)) return address;
  }
  throw new AppError("unavailable", "Every address of the sandboxes' network is in use.");
}
