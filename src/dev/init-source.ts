// Builds of the init for the platform: its own, and what callers have it download.
import { readFile } from "node:fs/promises";
import type { OutgoingError } from "../control-plane/outgoing/failure.ts";
import type { Outgoing } from "../control-plane/outgoing/outgoing.ts";
import { AppError } from "../core/errors.ts";
import type { InitSource } from "../sandbox-api/upgrade/init-source.ts";

export type InitSourceOptions = {
  version: string;
  guestBinary: string;
  /** Made for each download, with these limits. */
  openOutgoing: (limits: { responseMaxBytes: number; totalTimeoutMs: number }) => Outgoing;
};

const downloadTimeoutMs = 120_000;

export function createInitSource({ version, guestBinary, openOutgoing }: InitSourceOptions): InitSource {
  return {
    version,
    readShipped: () => readFile(guestBinary),
    requireUrl(url) {
      try {
        openOutgoing({ responseMaxBytes: 1, totalTimeoutMs: downloadTimeoutMs }).policy.requireUrl(url);
      } catch (error) {
        throw new AppError("invalid_request", `'baseUrl' ${(error as OutgoingError).message}.`, { cause: error });
      }
    },
    async download(url, { maxBytes }) {
      const outgoing = openOutgoing({ responseMaxBytes: maxBytes, totalTimeoutMs: downloadTimeoutMs });
      await using session = outgoing.open(url);
      const answer = await session.download(url).catch((error: OutgoingError) => {
        throw new AppError("upstream_failed", `${url} ${error.message}.`, { cause: error });
      });
      if (answer.status === 200) return answer.bytes;
      throw new AppError("upstream_failed", `${url} answered ${answer.status}.`);
    },
  };
}
