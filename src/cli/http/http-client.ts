// Talks to one base URL with one credential: deadlines on every wait, retries only where repeating has no second effect.
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request as requestPlain } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { CliFailure } from "../failure.ts";
import { failureOfResponse, failureOfTransport } from "./failure-of.ts";

export type HttpRequest = {
  method: "GET" | "PUT" | "POST" | "DELETE";
  /** Below the base URL, beginning with a slash, already encoded. */
  path: string;
  headers?: OutgoingHttpHeaders;
  /** Called once per attempt, so that a retry sends the body from its beginning. */
  body?: () => Readable | Buffer;
  bodyBytes?: number;
  /** Wait for the head of the answer, from the moment the body is sent or sending stalls. */
  timeoutMs?: number;
  /** Longest silence within the body of the answer. */
  idleTimeoutMs?: number;
  signal?: AbortSignal;
  /** Repeating has no second effect; default for GET, PUT and DELETE. */
  repeatable?: boolean;
};

export type HttpClientOptions = {
  baseUrl: string;
  /** Connects to this unix socket instead of the host in `baseUrl`. */
  socketPath?: string;
  /** None for a server that needs none. */
  apiKey?: string;
  workspace?: string;
  userAgent: string;
};

const attemptsMax = 3;
const jsonMaxBytes = 16 * 1024 * 1024;
const defaultTimeoutMs = 60_000;
const retriedStatuses = new Set([502, 503, 504]);

export class HttpClient implements Disposable {
  readonly baseUrl: string;
  readonly #headers: OutgoingHttpHeaders;
  readonly #socketPath: string | undefined;
  #agent: Agent | undefined;

  constructor({ baseUrl, socketPath, apiKey, workspace, userAgent }: HttpClientOptions) {
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.#socketPath = socketPath;
    this.#headers = { "user-agent": userAgent, "blaxel-version": "2026-04-28" };
    if (apiKey !== undefined) this.#headers.authorization = `Bearer ${apiKey}`;
    if (workspace !== undefined) this.#headers["x-blaxel-workspace"] = workspace;
  }

  [Symbol.dispose](): void {
    this.#agent?.destroy();
  }

  /** The answer as it comes, with its body unread; any status that is not 2xx is thrown. */
  async open(request: HttpRequest): Promise<IncomingMessage> {
    const repeatable = request.repeatable ?? request.method !== "POST";
    for (let attempt = 1; ; attempt += 1) {
      const last = !repeatable || attempt === attemptsMax;
      const response = await this.#send(request, repeatable).catch((error: unknown) => {
        if (last || error instanceof CliFailure || request.signal?.aborted)
          throw failureOfTransport(error, this.baseUrl);
        return undefined;
      });
      if (response !== undefined) {
        const status = response.statusCode ?? 0;
        if (status >= 200 && status < 300) return response;
        if (last || !retriedStatuses.has(status)) throw await failureOfResponse(response);
        response.destroy();
      }
      await delay(100 * 4 ** (attempt - 1), undefined, { signal: request.signal }).catch(() => undefined);
    }
  }

  /** The answer's JSON. The caller names the shape it relies on; servers may send more. */
  async json<T>(request: HttpRequest): Promise<T> {
    const response = await this.open({ ...request, headers: { accept: "application/json", ...request.headers } });
    const text = await readText(response, jsonMaxBytes).catch((error: unknown) => {
      throw failureOfTransport(error, this.baseUrl);
    });
    try {
      return (text === "" ? {} : JSON.parse(text)) as T;
    } catch (error) {
      throw new CliFailure("failure", `${this.baseUrl} did not answer with JSON; is it a catnap platform?`, {
        cause: error,
      });
    }
  }

  async #send(request: HttpRequest, repeatable: boolean): Promise<IncomingMessage> {
    const url = new URL(this.baseUrl);
    const secure = url.protocol === "https:";
    const transport = secure ? await import("node:https") : { request: requestPlain, Agent };
    this.#agent ??= new transport.Agent({ keepAlive: true, maxSockets: 16 });
    const body = request.body?.();
    const headers: OutgoingHttpHeaders = { ...this.#headers, ...request.headers };
    const bodyBytes = request.bodyBytes ?? (Buffer.isBuffer(body) ? body.length : undefined);
    if (bodyBytes !== undefined) headers["content-length"] = bodyBytes;
    return new Promise((resolve, reject) => {
      const sent = transport.request({
        method: request.method,
        socketPath: this.#socketPath,
        host: resolvableHost(url.hostname),
        port: url.port === "" ? undefined : Number(url.port),
        path: joinPath(url.pathname, request.path),
        headers: { host: url.host, ...headers },
        servername: secure ? url.hostname : undefined,
        // A request that must not be repeated gets a connection of its own: a kept one may be closing at this moment.
        agent: repeatable ? this.#agent : false,
        signal: request.signal,
      });
      let answer: IncomingMessage | undefined;
      const timeoutMs = request.timeoutMs ?? defaultTimeoutMs;
      const idleMs = request.idleTimeoutMs ?? defaultTimeoutMs;
      sent.setTimeout(timeoutMs);
      sent.on("timeout", () => (answer ?? sent).destroy(new TimeoutError(answer === undefined ? timeoutMs : idleMs)));
      sent.on("error", reject);
      sent.on("response", (response) => {
        answer = response;
        sent.setTimeout(idleMs);
        resolve(response);
      });
      if (body === undefined || Buffer.isBuffer(body)) sent.end(body);
      else pipeline(body, sent).catch(reject);
    });
  }
}

/** No byte came for longer than allowed. */
export class TimeoutError extends Error {
  constructor(timeoutMs: number) {
    super(`nothing came for ${Math.round(timeoutMs / 1000)} s`);
  }
}

async function readText(stream: Readable, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new Error(`the answer is longer than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Names under `localhost` are this machine (RFC 6761); the system resolver may not know them. */
function resolvableHost(hostname: string): string {
  if (hostname.endsWith(".localhost")) return "127.0.0.1";
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

function joinPath(base: string, path: string): string {
  return `${base === "/" ? "" : base.replace(/\/+$/, "")}${path}`;
}
