// The init that this project builds, as the one a platform ships, and nothing from elsewhere unless a test says so.
import { readFile } from "node:fs/promises";
import { AppError } from "../src/core/errors.ts";
import type { InitSource } from "../src/sandbox-api/upgrade/init-source.ts";
import { buildGuest } from "./guest/start-guest.ts";

export function shippedInit(path = process.env.CATNAP_GUEST_BINARY ?? buildGuest("init")): InitSource {
  return {
    version: "1.2.3",
    readShipped: () => readFile(path),
    requireUrl: () => undefined,
    download: () => Promise.reject(new AppError("upstream_failed", "there is no outside here")),
  };
}
