// Makes the connections of requests to the outside: the addresses that were checked are the ones connected to, so that a name whose
// answer changes between the two leads nowhere else.
import { isIP, type LookupFunction } from "node:net";
import { buildConnector } from "undici";
import { OutgoingError } from "./failure.ts";
import type { OutgoingPolicy } from "./policy.ts";

export type ConnectOptions = {
  policy: OutgoingPolicy;
  timeoutMs: number;
  /** Authorities trusted instead of the usual ones, for tests. */
  ca?: string;
};

export function createConnector({ policy, timeoutMs, ca }: ConnectOptions): buildConnector.connector {
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, "");
    const port = Number(options.port) || (options.protocol === "https:" ? 443 : 80);
    const allowed = new Set<string>();
    policy
      .resolve(host, port)
      .then((addresses) => {
        for (const { address } of addresses) allowed.add(address);
        const lookup: LookupFunction = (_host, { all }, answer) => {
          if (all) return answer(null, addresses);
          answer(null, addresses[0]!.address, addresses[0]!.family);
        };
        const connect = buildConnector({
          timeout: timeoutMs,
          lookup,
          allowH2: false,
          maxCachedSessions: 0,
          rejectUnauthorized: true,
          minVersion: "TLSv1.2",
          autoSelectFamily: true,
          ...(ca !== undefined && { ca }),
        });
        connect(options, (...result) => {
          const [error, socket] = result;
          if (error !== null) return callback(error, null);
          // What is written to goes where it was checked to go, however the connection came about.
          const { remoteAddress } = socket;
          if (remoteAddress !== undefined && (allowed.has(remoteAddress) || isIP(host) !== 0))
            return callback(null, socket);
          socket.destroy();
          callback(new OutgoingError("no_public_address", "has no public address"), null);
        });
      })
      .catch((error: Error) => callback(error, null));
  };
}
