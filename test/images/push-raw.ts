// Puts an image into a registry by its HTTP interface, piece by piece, so that manifest and configuration may say anything.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

export type RawImage = {
  layers: Buffer[];
  /** Replaces what an honest configuration would say; `rootfs` names the layers' uncompressed content. */
  config?: Record<string, unknown>;
  /** Changes the manifest before it is stored. */
  manifest?: (manifest: Manifest) => unknown;
};

type Manifest = { layers: Record<string, unknown>[]; config: Record<string, unknown> } & Record<string, unknown>;

const manifestType = "application/vnd.oci.image.manifest.v1+json";

export function sha256(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

/** Returns the complete reference. */
export async function pushRaw(registry: string, name: string, image: RawImage): Promise<string> {
  const [repository, tag] = name.split(":");
  const base = `http://${registry}/v2/${repository}`;
  const put = async (content: Buffer): Promise<{ digest: string; size: number }> => {
    const started = await fetch(`${base}/blobs/uploads/`, { method: "POST" });
    const url = new URL(started.headers.get("location") ?? "");
    const digest = sha256(content);
    url.searchParams.set("digest", digest);
    const stored = await fetch(url, { method: "PUT", body: new Uint8Array(content) });
    assert.equal(stored.status, 201);
    return { digest, size: content.length };
  };
  const layers = [];
  for (const layer of image.layers) {
    layers.push({ mediaType: "application/vnd.oci.image.layer.v1.tar+gzip", ...(await put(gzipSync(layer))) });
  }
  const rootfs = { type: "layers", diff_ids: image.layers.map(sha256) };
  const config = {
    architecture: process.arch === "x64" ? "amd64" : "arm64",
    os: "linux",
    config: {},
    rootfs,
    ...image.config,
  };
  const configBlob = await put(Buffer.from(JSON.stringify(config)));
  const honest: Manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: { mediaType: "application/vnd.oci.image.config.v1+json", ...configBlob },
    layers,
  };
  const stored = await fetch(`${base}/manifests/${tag}`, {
    method: "PUT",
    headers: { "content-type": manifestType },
    body: JSON.stringify(image.manifest?.(honest) ?? honest),
  });
  assert.equal(stored.status, 201, await stored.text());
  return `${registry}/${name}`;
}
