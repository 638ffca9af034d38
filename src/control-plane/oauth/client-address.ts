// The address that limits count by: a proxy that nobody has named hides its clients', and then one of them must not use up what all have.
import type { FastifyRequest } from "fastify";
import { networkOf } from "../auth/client-network.ts";

/** Undefined when nobody knows who is behind the connection. */
export function clientAddressOf({ ip }: FastifyRequest): string | undefined {
  const isLoopback = ip === "::1" || /^(?:::ffff:)?127\./.test(ip ?? "");
  return isLoopback || ip === undefined ? undefined : networkOf(ip);
}
