// Files of a sandbox through its own API: looking, listing, reading from an offset, writing and making directories.
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Directory } from "../../contract/sandbox-api/filesystem.ts";
import { CliFailure } from "../failure.ts";
import type { HttpClient } from "../http/http-client.ts";
import { encodeSandboxPath } from "./location.ts";

/** Sending a body may stall this long, and so may the answer after it: publishing a large file is a copy inside. */
const writeTimeoutMs = 300_000;

/** Called once per attempt; yields exactly the bytes that were announced. */
export type PartBody = () => Buffer | AsyncIterable<Buffer>;

export type UploadedPart = { partNumber: number; etag: string };

export class SandboxFiles {
  readonly #http: HttpClient;
  readonly #signal: AbortSignal;

  constructor(http: HttpClient, signal: AbortSignal) {
    this.#http = http;
    this.#signal = signal;
  }

  /** What is at a path, without reading it: a file's answer is an attachment, a directory's is not. */
  async kindOf(path: string): Promise<"file" | "directory" | "missing"> {
    try {
      const response = await this.#openRaw(path, "bytes=0-0");
      response.destroy();
      return response.headers["content-disposition"] === undefined ? "directory" : "file";
    } catch (error) {
      if (!(error instanceof CliFailure)) throw error;
      // An empty file has no first byte to answer with.
      if (error.status === 416) return "file";
      if (error.status === 404) return "missing";
      throw error;
    }
  }

  list(path: string): Promise<Directory> {
    return this.#http.json<Directory>({ method: "GET", path: urlOf(path), signal: this.#signal });
  }

  /** The raw bytes from an offset; 416 when there are none there. */
  read(path: string, offset: number): Promise<IncomingMessage> {
    return this.#openRaw(path, offset === 0 ? undefined : `bytes=${offset}-`);
  }

  async makeDirectory(path: string, mode: number): Promise<void> {
    await this.#putJson(urlOf(path), { isDirectory: true, permissions: octal(mode) });
  }

  /** One request; the body is made anew for a retry. */
  async writeFile(path: string, body: PartBody, bodyBytes: number, mode: number): Promise<void> {
    await this.#http.json({ ...this.#form(urlOf(path), body, bodyBytes, { permissions: octal(mode) }) });
  }

  async initiateUpload(path: string, mode: number): Promise<string> {
    const body = Buffer.from(JSON.stringify({ permissions: octal(mode) }));
    const { uploadId } = await this.#http.json<{ uploadId: string }>({
      method: "POST",
      path: `/filesystem-multipart/initiate/${encodeSandboxPath(path)}`,
      headers: { "content-type": "application/json" },
      body: () => body,
      signal: this.#signal,
    });
    return uploadId;
  }

  uploadPart(uploadId: string, partNumber: number, body: PartBody, bodyBytes: number): Promise<UploadedPart> {
    const path = `/filesystem-multipart/${encodeURIComponent(uploadId)}/part?partNumber=${partNumber}`;
    return this.#http.json<UploadedPart>(this.#form(path, body, bodyBytes));
  }

  async completeUpload(uploadId: string, parts: readonly UploadedPart[]): Promise<void> {
    const body = Buffer.from(JSON.stringify({ parts }));
    await this.#http.json({
      method: "POST",
      path: `/filesystem-multipart/${encodeURIComponent(uploadId)}/complete`,
      headers: { "content-type": "application/json" },
      body: () => body,
      timeoutMs: writeTimeoutMs,
      signal: this.#signal,
    });
  }

  /** Not bound to the copy's own signal: it is called when that has been aborted. */
  async abortUpload(uploadId: string): Promise<void> {
    const path = `/filesystem-multipart/${encodeURIComponent(uploadId)}/abort`;
    await this.#http.json({ method: "DELETE", path, timeoutMs: 10_000 });
  }

  #openRaw(path: string, range?: string): Promise<IncomingMessage> {
    const headers = { accept: "application/octet-stream", ...(range === undefined ? {} : { range }) };
    return this.#http.open({ method: "GET", path: urlOf(path), headers, signal: this.#signal });
  }

  async #putJson(path: string, value: unknown): Promise<void> {
    const body = Buffer.from(JSON.stringify(value));
    const headers = { "content-type": "application/json" };
    await this.#http.json({ method: "PUT", path, headers, body: () => body, signal: this.#signal });
  }

  #form(path: string, body: PartBody, bodyBytes: number, fields: Record<string, string> = {}) {
    const boundary = `catnap-${randomBytes(16).toString("hex")}`;
    const opening = Object.entries(fields)
      .map(([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
      .join("");
    const head = Buffer.from(
      `${opening}--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="file"\r\ncontent-type: application/octet-stream\r\n\r\n`,
    );
    const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
    return {
      method: "PUT" as const,
      path,
      headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
      body: () => {
        const content = body();
        if (Buffer.isBuffer(content)) return Buffer.concat([head, content, tail]);
        return Readable.from(framed(head, content, tail), { objectMode: false, highWaterMark: 256 * 1024 });
      },
      bodyBytes: head.length + bodyBytes + tail.length,
      timeoutMs: writeTimeoutMs,
      signal: this.#signal,
    };
  }
}

async function* framed(head: Buffer, content: AsyncIterable<Buffer>, tail: Buffer): AsyncGenerator<Buffer> {
  yield head;
  yield* content;
  yield tail;
}

function urlOf(path: string): string {
  return `/filesystem/${encodeSandboxPath(path)}`;
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, "0");
}
