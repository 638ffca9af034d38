// Asks for upload URLs and sends archives to them, for the tests of volume templates.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { type ClientRequest, request } from "node:http";
import { join } from "node:path";
import type { VolumeTemplateConfig } from "../../../src/control-plane/volume-templates/config.ts";
import { type Answer, type Server, startServer } from "../harness.ts";
import { archive } from "./tar-archive.ts";

export const smallArchive = archive({ name: "hello.txt", content: "hello" });

/** The URL, with the answer it came with. */
export async function askUpload(
  server: Server,
  name: string,
  version?: string,
): Promise<{ url: string; answer: Answer }> {
  const query = version === undefined ? "upload=true" : `upload=true&version=${version}`;
  const answer = await server.call("PUT", `/v0/volume_templates/${name}?${query}`, {
    body: { metadata: {}, spec: {} },
  });
  assert.equal(answer.status, 200, answer.text);
  return { url: answer.headers.get("x-blaxel-upload-url") ?? assert.fail("no upload URL"), answer };
}

export type Sent = { status: number; body: { error?: string; message?: string } | undefined };

export async function send(url: string, body: Buffer, headers: Record<string, string> = {}): Promise<Sent> {
  const answer = await fetch(url, {
    method: "PUT",
    body: new Uint8Array(body),
    headers: { "content-type": "application/x-tar", ...headers },
  });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
}

export type SlowUpload = {
  /** Resolves when the bytes have been handed to the connection. */
  write(bytes: Buffer): Promise<void>;
  end(): void;
  /** As a client that goes away. */
  cut(): void;
  /** The status, or `cut off`. */
  ended: Promise<number | "cut off">;
};

/** An upload whose body is sent by hand. */
export function sendSlowly(url: string): SlowUpload {
  const ended = Promise.withResolvers<number | "cut off">();
  const sending: ClientRequest = request(url, { method: "PUT", headers: { "content-type": "application/x-tar" } });
  sending.on("response", (response) => {
    response.resume();
    ended.resolve(response.statusCode ?? 0);
  });
  sending.on("error", () => ended.resolve("cut off"));
  sending.flushHeaders();
  return {
    write: (bytes) => new Promise((resolve) => void sending.write(bytes, () => resolve())),
    end: () => void sending.end(),
    cut: () => void sending.destroy(),
    ended: ended.promise,
  };
}

export function listFiles({ dataDir }: Server): string[] {
  const dir = join(dataDir, "volume-templates");
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name));
}

export async function versionOf(server: Server, name: string) {
  return (await server.call("GET", `/v0/volume_templates/${name}`)).body.versions[0];
}

export function startWith(volumeTemplates: Partial<VolumeTemplateConfig>): Promise<Server> {
  return startServer({ volumeTemplates });
}
