// API keys: how one is made, and the only form in which it is stored.
import { hash } from "node:crypto";
import { randomToken } from "../../core/ids.ts";

/** Makes a leaked key recognisable to people and scanners. */
const prefix = "ck_";

/** 50 characters of 36 hold more than 256 random bits. */
export function generateApiKey(): string {
  return `${prefix}${randomToken(50)}`;
}

export function hashApiKey(apiKey: string): string {
  return hash("sha256", apiKey, "hex");
}
