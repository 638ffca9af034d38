// Settings of the bucket that archives are kept in, if there is one; its secret comes from the environment or from a file.
import { readFileSync } from "node:fs";
import { invalidSetting, readText, type Settings } from "../../core/settings.ts";

export type S3Settings = {
  /** `https://s3.example.com`; the bucket is the first part of the path. */
  endpoint: string;
  bucket: string;
  region: string;
  keyId: string;
  secret: string;
};

const secretFileMaxBytes = 4_096;
const dependentSettings = ["BUCKET", "REGION", "KEY_ID", "SECRET_FILE", "SECRET"].map(
  (part) => `CATNAP_OBJECT_STORE_${part}`,
);

/** Undefined when no object store is configured. */
export function readS3Settings(settings: Settings): S3Settings | undefined {
  const endpoint = readText(settings, "CATNAP_OBJECT_STORE_URL");
  if (endpoint === undefined) {
    // Archives would silently be kept somewhere else than the operator means.
    const other = dependentSettings.find((name) => readText(settings, name) !== undefined);
    if (other !== undefined) throw invalidSetting("CATNAP_OBJECT_STORE_URL", `set together with ${other}`);
    return undefined;
  }
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || `${url.origin}/` !== url.href) {
    throw invalidSetting("CATNAP_OBJECT_STORE_URL", "an origin such as https://s3.example.com");
  }
  return {
    endpoint: url.origin,
    bucket: readPattern(
      settings,
      "CATNAP_OBJECT_STORE_BUCKET",
      /^(?!local$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
      "the name of a bucket",
    ),
    region: readPattern(
      settings,
      "CATNAP_OBJECT_STORE_REGION",
      /^[a-z0-9-]{1,64}$/,
      "the region of the bucket",
      "us-east-1",
    ),
    keyId: readPattern(
      settings,
      "CATNAP_OBJECT_STORE_KEY_ID",
      /^[\x21-\x2e\x30-\x7e]{1,128}$/,
      "the id of an access key",
    ),
    secret: readSecret(settings),
  };
}

function readPattern(settings: Settings, name: string, pattern: RegExp, rule: string, fallback?: string): string {
  const text = readText(settings, name) ?? fallback;
  if (text === undefined || !pattern.test(text)) throw invalidSetting(name, rule);
  return text;
}

function readSecret(settings: Settings): string {
  const path = readText(settings, "CATNAP_OBJECT_STORE_SECRET_FILE");
  const text = path === undefined ? readText(settings, "CATNAP_OBJECT_STORE_SECRET") : readSecretFile(path);
  if (text !== undefined && /^[\x21-\x7e]{1,256}$/.test(text)) return text;
  const name = path === undefined ? "CATNAP_OBJECT_STORE_SECRET" : "CATNAP_OBJECT_STORE_SECRET_FILE";
  throw invalidSetting(
    name,
    path === undefined ? "the secret of the access key" : "a file with the secret of the access key",
  );
}

function readSecretFile(path: string): string {
  try {
    return readFileSync(path).subarray(0, secretFileMaxBytes).toString("utf8").trim();
  } catch {
    throw invalidSetting("CATNAP_OBJECT_STORE_SECRET_FILE", "a file that can be read");
  }
}
