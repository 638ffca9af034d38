// Tells a server something by HTTP over a connection that is made inside the sandbox: it leads nowhere the sandbox could not go.
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls, createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { AppError } from "../../core/errors.ts";
import type { Guest } from "../machine.ts";
import { readResponseHead } from "../ports/response-head.ts";

const timeoutMs = 5_000;
const hostMaxLength = 253;
/** Names of the sandbox's loopback, whatever its files say; asked on each of its families. */
const loopback = new Set(["localhost", "127.0.0.1", "::1"]);

/** Where to tell; `path` has the query. */
export type Callback = { isSecure: boolean; hostname: string; host: string; port: number; path: string };

/** What it leads to is decided inside, by the sandbox's own network and names, each time it is asked. */
export function parseCallback(text: string): Callback {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new AppError("invalid_request", "'callback' must be an http or https URL.");
  }
  if (url.username !== "" || url.password !== "") {
    throw new AppError("invalid_request", "'callback' must not carry credentials before its host.");
  }
  const isSecure = url.protocol === "https:";
  const hostname = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (!/^[a-z0-9._:-]+$/.test(hostname) || hostname.length > hostMaxLength) {
    throw new AppError("invalid_request", "The host of 'callback' is no name and no address.");
  }
  const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port);
  if (port === 0) throw new AppError("invalid_request", "The port of 'callback' must be from 1 to 65535.");
  return { isSecure, hostname, host: url.host, port, path: `${url.pathname}${url.search}` };
}

/** Rejects unless a server took it, which only a status of 2xx says: redirections are not followed. The rest of its answer is not read. */
export async function postFromInside(
  guest: Guest,
  callback: Callback,
  value: unknown,
  ended: AbortSignal,
): Promise<void> {
  const { isSecure, hostname, host, port, path } = callback;
  const body = JSON.stringify(value);
  const deadline = AbortSignal.any([AbortSignal.timeout(timeoutMs), ended]);
  const plain = loopback.has(hostname)
    ? await guest.connect(port, deadline)
    : await guest.connectTo(hostname, port, deadline);
  plain.on("error", () => undefined);
  try {
    const stream = isSecure ? await secured(plain, hostname, deadline) : plain;
    const head = [
      `POST ${path} HTTP/1.1`,
      `host: ${host}`,
      "content-type: application/json",
      `content-length: ${Buffer.byteLength(body)}`,
      "connection: close",
    ];
    stream.write(`${head.join("\r\n")}\r\n\r\n${body}`);
    const { status } = await readResponseHead(stream, deadline);
    if (status < 200 || status > 299) throw new AppError("upstream_failed", `The callback answered ${status}.`);
  } finally {
    plain.destroy();
  }
}

let trust: SecureContext | undefined;

/** TLS as every client does it, with whom this machine trusts; `plain` is the caller's to close. */
async function secured(plain: Duplex, hostname: string, deadline: AbortSignal): Promise<Duplex> {
  trust ??= createSecureContext({
    ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system")])],
  });
  const servername = isIP(hostname) === 0 ? hostname : "";
  const stream = connectTls({ socket: plain, host: hostname, servername, secureContext: trust });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const failed = (message: string, cause?: unknown): void =>
    reject(new AppError("upstream_failed", message, { cause }));
  const onAbort = (): void => reject(new AppError("timeout", "TLS with the callback's server took too long."));
  stream.once("secureConnect", resolve);
  stream.on("error", (error: NodeJS.ErrnoException) =>
    failed(`TLS with the callback's server failed (${error.code ?? "unknown"}).`, error),
  );
  stream.once("close", () => failed("The callback's server closed the connection during TLS."));
  deadline.addEventListener("abort", onAbort, { once: true });
  if (deadline.aborted) onAbort();
  try {
    await promise;
    return stream;
  } catch (error) {
    stream.destroy();
    throw error;
  } finally {
    deadline.removeEventListener("abort", onAbort);
  }
}
