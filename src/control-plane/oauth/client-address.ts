// The address that limits count by: a proxy on this machine hides its clients', and then one of them must not use up what all have.
import type { FastifyRequest } from "fastify";

/** Undefined when nobody knows who is behind the connection. */
export function clientAddressOf({ socket }: FastifyRequest): string | undefined {
  const address = socket.remoteAddress ?? "";
  const isLoopback = address === "::1" || /^(?:::ffff:)?127\./.test(address);
  return isLoopback || address === "" ? undefined : address;
}
