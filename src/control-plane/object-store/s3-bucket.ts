// A bucket of an S3-compatible store: clients send archives to it with signed URLs, the platform copies, reads and removes them.
import type { S3Settings } from "./config.ts";
import { formatQuery, signHeaders, signUrl } from "./signature.ts";

export type ObjectHead = { sizeBytes: number; etag: string };

const requestMs = 30_000;
/** A store may copy some gigabytes before it answers. */
const copyMs = 600_000;
/** Longest silence while an object is read. */
const stallMs = 60_000;
const answerMaxBytes = 4 * 1024 * 1024;

/** Keys are made by the platform, of `[a-z0-9./-]`, and need no escaping anywhere. `signal` ends a request early. */
export class S3Bucket {
  readonly bucket: string;
  readonly #settings: S3Settings;
  readonly #prefix: string;

  /** `prefix` keeps apart installations that share a bucket. */
  constructor(settings: S3Settings, prefix: string) {
    this.bucket = settings.bucket;
    this.#settings = settings;
    this.#prefix = prefix;
  }

  /** Whoever has the URL may put the object, of any size, until it expires. */
  signUpload(key: string, expiresInSeconds: number): string {
    return signUrl(this.#settings, "PUT", this.#urlOf(key), expiresInSeconds, new Date());
  }

  async head(key: string, signal: AbortSignal): Promise<ObjectHead | undefined> {
    const answer = await this.#send("HEAD", key, { signal, allowed: [404] });
    return answer.status === 404 ? undefined : readHead(answer, key);
  }

  /** False when the object is not there any more or is another one than that of the etag. */
  async copy(from: string, to: string, etag: string, signal: AbortSignal): Promise<boolean> {
    const headers = {
      "x-amz-copy-source": `/${this.bucket}/${this.#prefix}${from}`,
      "x-amz-copy-source-if-match": etag,
    };
    const answer = await this.#send("PUT", to, { signal, headers, allowed: [404, 412], timeoutMs: copyMs });
    const text = await readText(answer);
    if (!answer.ok) return false;
    // A copy that fails half-way has answered 200 already.
    if (text.includes("<Error>")) throw new Error(`the object store could not copy ${from}`);
    return true;
  }

  /** The bytes of the object that the etag names; fails when it is another one, or when nothing comes for a minute. */
  async *read(key: string, etag: string, signal: AbortSignal): AsyncGenerator<Buffer> {
    const stall = new AbortController();
    const timer = setTimeout(() => stall.abort(new Error(`reading ${key} from the object store stalled`)), stallMs);
    try {
      const whole = AbortSignal.any([signal, stall.signal]);
      const answer = await this.#send("GET", key, { signal: whole, headers: { "if-match": etag }, timeoutMs: null });
      for await (const chunk of answer.body ?? []) {
        timer.refresh();
        yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
        timer.refresh();
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async remove(key: string, signal?: AbortSignal): Promise<void> {
    const answer = await this.#send("DELETE", key, { signal, allowed: [404] });
    await readText(answer);
  }

  /** Keys below a folder, which ends in `/`, without it. */
  async listKeys(folder: string, signal?: AbortSignal): Promise<string[]> {
    const keys: string[] = [];
    const prefix = `${this.#prefix}${folder}`;
    for (let token: string | undefined = ""; token !== undefined; ) {
      const query: [string, string][] = [
        ["list-type", "2"],
        ["prefix", prefix],
      ];
      if (token !== "") query.push(["continuation-token", token]);
      const text = await readText(await this.#send("GET", undefined, { signal, query }));
      const page = [...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => match[1] ?? "");
      keys.push(...page.filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length)));
      const next: string | undefined = /<NextContinuationToken>([^<]+)<\/NextContinuationToken>/.exec(text)?.[1];
      token = next === undefined || page.length === 0 ? undefined : unescapeXml(next);
    }
    return keys;
  }

  #urlOf(key: string | undefined): URL {
    const path = key === undefined ? "" : `/${this.#prefix}${key}`;
    return new URL(`${this.#settings.endpoint}/${this.bucket}${path}`);
  }

  async #send(method: string, key: string | undefined, options: SendOptions): Promise<Response> {
    const { signal, headers = {}, query = [], allowed = [], timeoutMs = requestMs } = options;
    const url = this.#urlOf(key);
    url.search = formatQuery(query);
    const signals = [signal, timeoutMs === null ? undefined : AbortSignal.timeout(timeoutMs)];
    const answer = await fetch(url, {
      method,
      headers: signHeaders(this.#settings, method, url, headers, new Date()),
      signal: AbortSignal.any(signals.filter((each) => each !== undefined)),
      // Where it leads was not decided by the operator.
      redirect: "error",
    });
    if (answer.ok || allowed.includes(answer.status)) return answer;
    const code = /<Code>(\w{1,64})<\/Code>/.exec(await readText(answer))?.[1] ?? "no code";
    throw new Error(`the object store answered ${answer.status} (${code}) to ${method} ${key ?? "list"}`);
  }
}

type SendOptions = {
  signal: AbortSignal | undefined;
  headers?: Record<string, string>;
  query?: [string, string][];
  /** Statuses that are no failure. */
  allowed?: number[];
  timeoutMs?: number | null;
};

function readHead(answer: Response, key: string): ObjectHead {
  const sizeBytes = Number(answer.headers.get("content-length") ?? "none");
  const etag = answer.headers.get("etag");
  if (Number.isSafeInteger(sizeBytes) && etag !== null) return { sizeBytes, etag };
  throw new Error(`the object store says neither size nor etag of ${key}`);
}

async function readText(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length;
    if (bytes > answerMaxBytes) throw new Error("the object store's answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function unescapeXml(text: string): string {
  return text.replaceAll(/&(\w+);/g, (whole, name: string) => entities[name] ?? whole);
}
