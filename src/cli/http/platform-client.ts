// The control plane's operations that the command line uses, over HTTP.
import {
  type Preview,
  type PreviewInput,
  type PreviewToken,
  type PreviewTokenInput,
  sessionPort,
} from "../../contract/preview.ts";
import type { Sandbox, SandboxInput } from "../../contract/sandbox.ts";
import { randomToken } from "../../core/ids.ts";
import { CliFailure } from "../failure.ts";
import type { HttpClient } from "./http-client.ts";

const createTimeoutMs = 600_000;
const deleteTimeoutMs = 120_000;
const pageSize = 200;
const pagesMax = 500;

export type SandboxFilter = { status?: string; showTerminated?: boolean; search?: string };

export class PlatformClient {
  readonly #http: HttpClient;

  constructor(http: HttpClient) {
    this.#http = http;
  }

  /** Returns once the sandbox is usable. Repeating after a broken connection makes no second one: the request carries a key. */
  async createSandbox(sandbox: SandboxInput, signal?: AbortSignal): Promise<Sandbox> {
    const body = Buffer.from(JSON.stringify(sandbox));
    return this.#http.json<Sandbox>({
      method: "POST",
      path: "/sandboxes",
      headers: { "content-type": "application/json", "idempotency-key": `cli-${randomToken(24)}` },
      body: () => body,
      timeoutMs: createTimeoutMs,
      repeatable: true,
      signal,
    });
  }

  async getSandbox(name: string, signal?: AbortSignal): Promise<Sandbox> {
    return this.#http
      .json<Sandbox>({ method: "GET", path: pathOf(name), signal })
      .catch((error: unknown) => rethrowMissing(error, name));
  }

  async deleteSandbox(name: string, signal?: AbortSignal): Promise<Sandbox> {
    return this.#http
      .json<Sandbox>({ method: "DELETE", path: pathOf(name), timeoutMs: deleteTimeoutMs, signal })
      .catch((error: unknown) => rethrowMissing(error, name));
  }

  /** A preview of the sandbox API that ends with its token. */
  async openSession(sandboxName: string, expires: string): Promise<{ preview: Preview; token: string }> {
    const previews = `${pathOf(sandboxName)}/previews`;
    const name = `terminal-${randomToken(12)}`;
    const preview = await this.#post<Preview>(previews, {
      metadata: { name },
      spec: { port: sessionPort, public: false, expires },
    } satisfies PreviewInput).catch((error: unknown) => rethrowMissing(error, sandboxName));
    const { spec } = await this.#post<PreviewToken>(`${previews}/${name}/tokens`, {
      metadata: { name },
      spec: { expiresAt: expires },
    } satisfies PreviewTokenInput);
    if (spec.token === undefined) throw new CliFailure("failure", "The platform answered with no token.");
    return { preview, token: spec.token };
  }

  #post<Answer>(path: string, value: object): Promise<Answer> {
    const body = Buffer.from(JSON.stringify(value));
    return this.#http.json<Answer>({
      method: "POST",
      path,
      headers: { "content-type": "application/json" },
      body: () => body,
    });
  }

  /** Every sandbox, page by page. Older servers answer with one bare array. */
  async *listSandboxes(filter: SandboxFilter = {}): AsyncGenerator<Sandbox> {
    const query = new URLSearchParams({ limit: String(pageSize) });
    if (filter.status !== undefined) query.set("status", filter.status);
    if (filter.showTerminated === true) query.set("showTerminated", "true");
    if (filter.search !== undefined) query.set("q", filter.search);
    for (let page = 0; page < pagesMax; page += 1) {
      const answer = await this.#http.json<SandboxPage | Sandbox[]>({ method: "GET", path: `/sandboxes?${query}` });
      const { data, meta }: SandboxPage = Array.isArray(answer) ? { data: answer } : answer;
      yield* data ?? [];
      const cursor = meta?.nextCursor;
      if (cursor === undefined || cursor === "" || cursor === query.get("cursor")) return;
      query.set("cursor", cursor);
    }
    throw new CliFailure("failure", `The platform lists more than ${pagesMax * pageSize} sandboxes.`, {
      remedy: "Narrow the list with --status or --search.",
    });
  }
}

type SandboxPage = { data?: Sandbox[]; meta?: { nextCursor?: string } };

function pathOf(name: string): string {
  return `/sandboxes/${encodeURIComponent(name)}`;
}

function rethrowMissing(error: unknown, name: string): never {
  if (!(error instanceof CliFailure) || error.kind !== "notFound") throw error;
  throw new CliFailure("notFound", `There is no sandbox ${name}.`, {
    status: error.status,
    code: error.code,
    cause: error,
    remedy: "`catnap sandbox list` shows what there is.",
  });
}
