// Signs requests to an S3-compatible store: AWS Signature Version 4, in headers for the platform's own and in the URL for its clients'.
import { createHash, createHmac } from "node:crypto";

export type SigningKey = { keyId: string; secret: string; region: string };

const algorithm = "AWS4-HMAC-SHA256";
const emptyBody = createHash("sha256").digest("hex");

/** The headers of a request without a body; `headers` are signed, and sent as well. */
export function signHeaders(
  key: SigningKey,
  method: string,
  url: URL,
  headers: Readonly<Record<string, string>>,
  now: Date,
): Record<string, string> {
  const time = formatTime(now);
  const sent = { ...headers, "x-amz-content-sha256": emptyBody, "x-amz-date": time };
  const { names, signature } = sign(key, { method, url, headers: { ...sent, host: url.host }, time, body: emptyBody });
  const authorization = `${algorithm} Credential=${key.keyId}/${scopeOf(key, time)}, SignedHeaders=${names}, Signature=${signature}`;
  return { ...sent, authorization };
}

/** The URL with which anybody may send one request of that method until it expires. */
export function signUrl(key: SigningKey, method: string, url: URL, expiresInSeconds: number, now: Date): string {
  const time = formatTime(now);
  const signed = new URL(url);
  signed.search = formatQuery([
    ...url.searchParams,
    ["X-Amz-Algorithm", algorithm],
    ["X-Amz-Credential", `${key.keyId}/${scopeOf(key, time)}`],
    ["X-Amz-Date", time],
    ["X-Amz-Expires", String(expiresInSeconds)],
    ["X-Amz-SignedHeaders", "host"],
  ]);
  const { signature } = sign(key, { method, url: signed, headers: { host: url.host }, time, body: "UNSIGNED-PAYLOAD" });
  return `${signed.href}&X-Amz-Signature=${signature}`;
}

type Signed = { method: string; url: URL; headers: Readonly<Record<string, string>>; time: string; body: string };

function sign(key: SigningKey, { method, url, headers, time, body }: Signed): { names: string; signature: string } {
  const sorted = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = sorted.map(([name]) => name).join(";");
  const lines = sorted.map(([name, value]) => `${name}:${value.trim()}\n`).join("");
  const request = [method, url.pathname, formatQuery([...url.searchParams]), lines, names, body].join("\n");
  const digest = createHash("sha256").update(request).digest("hex");
  const text = [algorithm, time, scopeOf(key, time), digest].join("\n");
  const steps = [time.slice(0, 8), key.region, "s3", "aws4_request", text];
  const signature = steps.reduce<string | Buffer>(
    (secret, step) => createHmac("sha256", secret).update(step).digest(),
    `AWS4${key.secret}`,
  ) as Buffer;
  return { names, signature: signature.toString("hex") };
}

function scopeOf({ region }: SigningKey, time: string): string {
  return `${time.slice(0, 8)}/${region}/s3/aws4_request`;
}

/** `20260102T030405Z` */
function formatTime(now: Date): string {
  return now.toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
}

/** In the order and the escaping that is signed. */
export function formatQuery(parameters: readonly (readonly [string, string])[]): string {
  return parameters
    .map(([name, value]) => `${escapeAll(name)}=${escapeAll(value)}`)
    .sort()
    .join("&");
}

function escapeAll(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
