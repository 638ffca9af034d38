// Tells a server inside a sandbox something by HTTP: over a connection made inside, so that it leads nowhere the sandbox could not go.
import { BlockList, isIPv4 } from "node:net";
import { AppError } from "../../core/errors.ts";
import type { Guest } from "../machine.ts";
import { readResponseHead } from "../ports/response-head.ts";

const timeoutMs = 5_000;

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");

/** Where to tell; `path` has the query. */
export type Callback = { host: string; port: number; path: string };

/** Only what the sandbox itself is: a request of the platform to anywhere else could reach what the sandbox must not. */
export function parseCallback(text: string): Callback {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.protocol !== "http:") {
    throw new AppError("invalid_request", "'callback' must be an http URL.");
  }
  if (url.username !== "" || url.password !== "") {
    throw new AppError("invalid_request", "'callback' must not carry credentials.");
  }
  const { hostname } = url;
  const isInside =
    hostname === "localhost" || hostname === "[::1]" || (isIPv4(hostname) && loopback.check(hostname, "ipv4"));
  if (!isInside) {
    throw new AppError("unprocessable", "'callback' must lead to a server inside the sandbox: localhost or 127.0.0.1.");
  }
  return { host: url.host, port: url.port === "" ? 80 : Number(url.port), path: `${url.pathname}${url.search}` };
}

/** Rejects unless a server took it, which only a status of 2xx says. The rest of its answer is not read. */
export async function postInside(guest: Guest, callback: Callback, value: unknown, ended: AbortSignal): Promise<void> {
  const body = JSON.stringify(value);
  const deadline = AbortSignal.any([AbortSignal.timeout(timeoutMs), ended]);
  const stream = await guest.connect(callback.port, deadline);
  stream.on("error", () => undefined);
  try {
    const head = [
      `POST ${callback.path} HTTP/1.1`,
      `host: ${callback.host}`,
      "content-type: application/json",
      `content-length: ${Buffer.byteLength(body)}`,
      "connection: close",
    ];
    stream.write(`${head.join("\r\n")}\r\n\r\n${body}`);
    const { status } = await readResponseHead(stream, deadline);
    if (status < 200 || status > 299) throw new AppError("upstream_failed", `the callback answered ${status}`);
  } finally {
    stream.destroy();
  }
}
