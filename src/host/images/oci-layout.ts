// Reads what a pulled image says of itself, with bounds: the manifest's layers and the configuration a sandbox takes over.
import { readFile, stat } from "node:fs/promises";
import { isAbsolute, join, normalize } from "node:path";

/** An image that cannot be used; the message is for the caller who asked for it. */
export class ImageDefect extends Error {
  override readonly name = "ImageDefect";
}

export type PulledImage = {
  /** Of the configuration, which names the uncompressed content: equal for equal images however they travelled. */
  digest: string;
  /** Hex digests of every blob the image consists of. */
  blobs: string[];
  layerBytes: number;
  environment: Record<string, string>;
  workingDir: string;
  homeDir: string;
};

const documentMaxBytes = 4 * 1024 * 1024;
const layersMax = 256;
const environmentMaxBytes = 64 * 1024;
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

type Descriptor = { digest: string; size: number };

/** `layoutDir` is an OCI image layout with one manifest; its blobs lie in `blobsDir`. */
export async function readPulledImage(layoutDir: string, blobsDir: string): Promise<PulledImage> {
  const index = await readDocument(join(layoutDir, "index.json"));
  const entry = listOf(index.manifests)[0];
  const manifestDigest = hexDigest(entry);
  const manifest = await readDocument(join(blobsDir, "sha256", manifestDigest));
  const layers = listOf(manifest.layers);
  if (layers.length === 0 || layers.length > layersMax)
    throw new ImageDefect(`It has ${layers.length} layers; 1 to ${layersMax} are accepted.`);
  const configDigest = hexDigest(manifest.config);
  const content = await readDocument(join(blobsDir, "sha256", configDigest));
  requireSameLayers(layers, content);
  const config = recordOf(content.config ?? {});
  const environment = readEnvironment(config.Env);
  return {
    digest: configDigest,
    blobs: [manifestDigest, configDigest, ...layers.map(hexDigest)],
    layerBytes: layers.reduce<number>((sum, layer) => sum + Number((layer as Descriptor).size), 0),
    environment,
    workingDir: readDirectory(config.WorkingDir, "/"),
    homeDir: readDirectory(environment.HOME, "/root"),
  };
}

/**
 * The configuration's digest stands for the content only if every uncompressed layer is named in it, one for one. umoci compares
 * the layers with these names; were some missing, an image could be published under the digest of another.
 */
function requireSameLayers(layers: unknown[], content: Record<string, unknown>): void {
  const names = listOf(recordOf(content.rootfs ?? {}).diff_ids);
  const complete = names.length === layers.length && names.every((name) => /^sha256:[0-9a-f]{64}$/.test(String(name)));
  if (!complete) throw new ImageDefect("Its configuration does not name its layers.");
}

async function readDocument(path: string): Promise<Record<string, unknown>> {
  const { size } = await stat(path);
  if (size > documentMaxBytes) throw new ImageDefect("Its manifest or configuration is larger than 4 MiB.");
  try {
    return recordOf(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    throw new ImageDefect("Its manifest or configuration cannot be read.", { cause: error });
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ImageDefect("Its manifest or configuration is malformed.");
  return value as Record<string, unknown>;
}

function listOf(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new ImageDefect("Its manifest is malformed.");
  return value;
}

/** Digests become file names, so only the one form is accepted. */
function hexDigest(value: unknown): string {
  const match = /^sha256:([0-9a-f]{64})$/.exec(String(recordOf(value).digest));
  if (match === null) throw new ImageDefect("Its manifest names content by something other than sha256.");
  return match[1]!;
}

function readEnvironment(value: unknown): Record<string, string> {
  const environment: Record<string, string> = { PATH: defaultPath };
  let bytes = 0;
  for (const entry of value === undefined || value === null ? [] : listOf(value)) {
    const match = /^([^=\0]+)=([^\0]*)$/s.exec(String(entry));
    if (match === null) continue;
    bytes += Buffer.byteLength(String(entry));
    if (bytes > environmentMaxBytes) throw new ImageDefect("Its environment is larger than 64 KiB.");
    environment[match[1]!] = match[2]!;
  }
  environment.HOME ??= "/root";
  return environment;
}

function readDirectory(value: unknown, fallback: string): string {
  if (typeof value !== "string" || value === "") return fallback;
  if (!isAbsolute(value) || value.includes("\0") || value.length > 1_024)
    throw new ImageDefect("Its working or home directory is not an absolute path.");
  return normalize(value);
}
