// Random credentials: how one is made, the only form in which it is stored, and how the two are compared.
import { hash, timingSafeEqual } from "node:crypto";
import { randomToken } from "../../core/ids.ts";

/** Prefixes make leaked credentials recognisable to people and scanners. */
const prefixes = { apiKey: "ck_", clientSecret: "cs_" } as const;

/** 50 characters of 36 hold more than 256 random bits: no slow hash is needed. */
export function generateSecret(kind: keyof typeof prefixes): string {
  return `${prefixes[kind]}${randomToken(50)}`;
}

/** Hexadecimal SHA-256. */
export function hashSecret(secret: string): string {
  return hash("sha256", secret, "hex");
}

/** Takes as long for every wrong secret of a length. */
export function matchesHash(secret: string, secretHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashSecret(secret)), Buffer.from(secretHash));
}
