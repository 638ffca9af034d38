// Random credentials: how one is made, the only form in which it is stored, and how the two are compared.
import { hash, timingSafeEqual } from "node:crypto";
import { randomToken } from "../../core/ids.ts";

/** Prefixes make leaked credentials recognisable to people and scanners. */
const prefixes = { apiKey: "ck_", clientSecret: "cs_", previewToken: "pt_" } as const;
const randomLength = 50;

/** 50 characters of 36 hold more than 256 random bits: no slow hash is needed. */
export function generateSecret(kind: keyof typeof prefixes): string {
  return `${prefixes[kind]}${randomToken(randomLength)}`;
}

/** Whether a text could be one: whatever is not needs no search. */
export function isSecret(kind: keyof typeof prefixes, text: string): boolean {
  const prefix = prefixes[kind];
  return (
    text.length === prefix.length + randomLength &&
    text.startsWith(prefix) &&
    /^[a-z0-9]+$/.test(text.slice(prefix.length))
  );
}

/** Hexadecimal SHA-256. */
export function hashSecret(secret: string): string {
  return hash("sha256", secret, "hex");
}

/** Takes as long for every wrong secret of a length. */
export function matchesHash(secret: string, secretHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashSecret(secret)), Buffer.from(secretHash));
}
