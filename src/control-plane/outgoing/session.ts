// A short exchange with one server outside: every request of it is bounded in time, size and number, follows redirects only within the
// same origin, and shares its connection with nobody else.
import { Client, type Dispatcher } from "undici";
import { createConnector } from "./connect.ts";
import { OutgoingError } from "./failure.ts";
import type { OutgoingPolicy } from "./policy.ts";

export type OutgoingLimits = {
  connectTimeoutMs: number;
  /** Until the first byte of an answer, and between any two of its pieces. */
  idleTimeoutMs: number;
  /** The whole exchange. */
  totalTimeoutMs: number;
  responseMaxBytes: number;
  /** Of the exchange, redirects included. */
  requestsMax: number;
  redirectsMax: number;
};

export const defaultLimits: OutgoingLimits = {
  connectTimeoutMs: 5_000,
  idleTimeoutMs: 10_000,
  totalTimeoutMs: 20_000,
  responseMaxBytes: 4_194_304,
  requestsMax: 60,
  redirectsMax: 3,
};

export type OutgoingAnswer = { status: number; contentType: string; text: string };

export type OutgoingRequest = {
  method: "GET" | "POST";
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
};

export type SessionOptions = { policy: OutgoingPolicy; limits: OutgoingLimits; ca?: string };

const headersMaxBytes = 16_384;
const redirectStatuses: readonly number[] = [301, 302, 303, 307, 308];

export class OutgoingSession implements AsyncDisposable {
  readonly #policy: OutgoingPolicy;
  readonly #limits: OutgoingLimits;
  readonly #origin: string;
  readonly #client: Client;
  readonly #deadline: AbortSignal;
  #requests = 0;

  /** Throws `invalid_url` when the policy does not let any request go there. */
  constructor(url: string, { policy, limits, ca }: SessionOptions) {
    this.#policy = policy;
    this.#limits = limits;
    this.#origin = policy.requireUrl(url).origin;
    this.#deadline = AbortSignal.timeout(limits.totalTimeoutMs);
    this.#client = new Client(this.#origin, {
      connect: createConnector({ policy, timeoutMs: limits.connectTimeoutMs, ...(ca !== undefined && { ca }) }),
      headersTimeout: limits.idleTimeoutMs,
      bodyTimeout: limits.idleTimeoutMs,
      maxHeaderSize: headersMaxBytes,
      pipelining: 1,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.destroy();
  }

  /** The answer whatever its status, redirects excepted. */
  async send(request: OutgoingRequest): Promise<OutgoingAnswer> {
    const { status, contentType, bytes } = await this.#exchange(request);
    return { status, contentType, text: bytes.toString("utf8") };
  }

  /** A file as it is. */
  async download(url: string): Promise<{ status: number; bytes: Buffer }> {
    return this.#exchange({ method: "GET", url, headers: { accept: "*/*" } });
  }

  async #exchange(request: OutgoingRequest): Promise<{ status: number; contentType: string; bytes: Buffer }> {
    let { url } = request;
    for (let redirects = 0; redirects <= this.#limits.redirectsMax; redirects++) {
      const { statusCode, headers, body } = await this.#request({ ...request, url });
      if (!redirectStatuses.includes(statusCode)) {
        requireIdentity(headers["content-encoding"]);
        const bytes = await this.#read(body);
        return { status: statusCode, contentType: String(headers["content-type"] ?? ""), bytes };
      }
      // Only where it leads matters; the connection goes with whatever else it says.
      body.on("error", () => undefined).destroy();
      if (request.method !== "GET") throw new OutgoingError("redirect", `answered with a redirect (${statusCode})`);
      url = this.#follow(url, headers.location);
    }
    throw new OutgoingError("redirect", `redirected more than ${this.#limits.redirectsMax} times`);
  }

  async #request({ method, url: text, headers, body }: OutgoingRequest): Promise<Dispatcher.ResponseData> {
    const url = this.#policy.requireUrl(text);
    if (url.origin !== this.#origin) throw new OutgoingError("redirect", "leads to another origin");
    if (++this.#requests > this.#limits.requestsMax) {
      throw new OutgoingError("too_many", `needed more than ${this.#limits.requestsMax} requests`);
    }
    try {
      return await this.#client.request({
        method,
        path: `${url.pathname}${url.search}`,
        // Without an encoding the bytes counted are the bytes there are.
        headers: { "user-agent": "catnap", accept: "application/json", ...headers, "accept-encoding": "identity" },
        ...(body !== undefined && { body }),
        signal: this.#deadline,
      });
    } catch (error) {
      throw describeError(error);
    }
  }

  /** With the credential goes only who it was meant for. */
  #follow(from: string, location: string | string[] | undefined): string {
    const target = typeof location === "string" && URL.canParse(location, from) ? new URL(location, from) : undefined;
    if (target === undefined) throw new OutgoingError("redirect", "redirected to nowhere");
    if (target.origin !== this.#origin || target.username !== "" || target.password !== "") {
      throw new OutgoingError("redirect", "redirected to another origin, which is not followed");
    }
    return target.href;
  }

  async #read(body: Dispatcher.ResponseData["body"]): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > this.#limits.responseMaxBytes) {
          throw new OutgoingError("too_large", `answered with more than ${this.#limits.responseMaxBytes} bytes`);
        }
        chunks.push(chunk);
      }
    } catch (error) {
      throw describeError(error);
    }
    return Buffer.concat(chunks);
  }
}

function requireIdentity(encoding: string | string[] | undefined): void {
  if (encoding === undefined || encoding === "identity" || encoding === "") return;
  throw new OutgoingError("encoding", "answered in an encoding that was not asked for");
}

const timeoutCodes = ["UND_ERR_CONNECT_TIMEOUT", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "ETIMEDOUT"];

function describeError(error: unknown): OutgoingError {
  if (error instanceof OutgoingError) return error;
  const { name, code = "" } = error as { name?: string; code?: string };
  if (name === "TimeoutError" || timeoutCodes.includes(code)) {
    return new OutgoingError("timeout", "did not answer in time", error);
  }
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)) {
    return new OutgoingError("tls", `did not prove its identity over TLS (${code})`, error);
  }
  return new OutgoingError("unreachable", "cannot be reached", error);
}
