// An S3 server for tests, of one bucket in memory, that verifies every signature by what the protocol says and knows nothing of ours.
import { createHash, createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export const bucket = { name: "archives", keyId: "AKIDTEST", secret: "s3/secret+of=tests", region: "eu-test-1" };

export type S3Server = AsyncDisposable & {
  url: string;
  objects: Map<string, Buffer>;
  /** `GET /key`, without refused ones. */
  served: string[];
  refused: string[];
  /** May answer in the server's stead. */
  onRequest: (method: string, key: string, response: ServerResponse) => boolean | Promise<boolean>;
};

/** Objects on one page of a list: few, so that there are several. */
const pageSize = 2;

export async function startS3(): Promise<S3Server> {
  const state: Pick<S3Server, "objects" | "served" | "refused" | "onRequest"> = {
    objects: new Map(),
    served: [],
    refused: [],
    onRequest: () => false,
  };
  const server = createServer((request, response) => {
    void handle(state, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

async function handle(
  state: Pick<S3Server, "objects" | "served" | "refused" | "onRequest">,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = "" } = request;
  const [path = "", query = ""] = (request.url ?? "").split("?");
  const key = path.slice(`/${bucket.name}/`.length);
  const problem = verify(request, path, query);
  if (problem !== undefined || path.split("/")[1] !== bucket.name) {
    state.refused.push(`${method} ${path}: ${problem}`);
    return refuse(response, 403, "SignatureDoesNotMatch");
  }
  state.served.push(`${method} ${key}`);
  if (await state.onRequest(method, key, response)) return;
  const object = state.objects.get(key);
  if (method === "PUT" && request.headers["x-amz-copy-source"] !== undefined) {
    const source = state.objects.get(String(request.headers["x-amz-copy-source"]).slice(bucket.name.length + 2));
    if (source === undefined) return refuse(response, 404, "NoSuchKey");
    if (request.headers["x-amz-copy-source-if-match"] !== etagOf(source))
      return refuse(response, 412, "PreconditionFailed");
    state.objects.set(key, source);
    response.end(`<CopyObjectResult><ETag>${etagOf(source)}</ETag></CopyObjectResult>`);
  } else if (method === "PUT") {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    state.objects.set(key, Buffer.concat(chunks));
    response.writeHead(200, { etag: etagOf(Buffer.concat(chunks)) }).end();
  } else if (method === "DELETE") {
    state.objects.delete(key);
    response.writeHead(204).end();
  } else if (method === "GET" && new URLSearchParams(query).get("list-type") === "2") {
    list(state.objects, new URLSearchParams(query), response);
  } else if (object === undefined) {
    refuse(response, 404, "NoSuchKey");
  } else if (request.headers["if-match"] !== undefined && request.headers["if-match"] !== etagOf(object)) {
    refuse(response, 412, "PreconditionFailed");
  } else {
    response.writeHead(200, { "content-length": object.length, etag: etagOf(object) });
    response.end(method === "HEAD" ? undefined : object);
  }
}

function etagOf(object: Buffer): string {
  return `"${createHash("md5").update(object).digest("hex")}"`;
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { "content-type": "application/xml" }).end(`<Error><Code>${code}</Code></Error>`);
}

function list(objects: Map<string, Buffer>, query: URLSearchParams, response: ServerResponse): void {
  const after = query.get("continuation-token")?.replace(/^after&/, "") ?? "";
  const matching = [...objects.keys()].sort().filter((key) => key.startsWith(query.get("prefix") ?? "") && key > after);
  const page = matching.slice(0, pageSize);
  const contents = page.map((key) => `<Contents><Key>${key}</Key><Size>${objects.get(key)?.length}</Size></Contents>`);
  const more = matching.length > page.length;
  const next = more ? `<NextContinuationToken>after&amp;${page.at(-1)}</NextContinuationToken>` : "";
  response.end(`<ListBucketResult>${contents.join("")}<IsTruncated>${more}</IsTruncated>${next}</ListBucketResult>`);
}

const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/** Why the signature does not hold, or undefined. */
function verify(request: IncomingMessage, path: string, query: string): string | undefined {
  const parameters = query === "" ? [] : query.split("&");
  const inUrl = Object.fromEntries(parameters.map((each) => each.split("=").map(decodeURIComponent))) as Record<
    string,
    string
  >;
  const presigned = inUrl["X-Amz-Signature"] !== undefined;
  const header = /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
    request.headers.authorization ?? "",
  );
  if (!presigned && header === null) return "it is not signed";
  const [credential = "", names = "", signature = ""] = presigned
    ? [inUrl["X-Amz-Credential"], inUrl["X-Amz-SignedHeaders"], inUrl["X-Amz-Signature"]]
    : (header?.slice(1) ?? []);
  const time = presigned ? (inUrl["X-Amz-Date"] ?? "") : String(request.headers["x-amz-date"]);
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  const validMs = presigned ? Number(inUrl["X-Amz-Expires"]) * 1_000 : 900_000;
  if (!(Date.now() < at + validMs)) return "it has expired";
  const [keyId, day = "", region = "", service, end] = credential.split("/");
  if (keyId !== bucket.keyId || region !== bucket.region || service !== "s3" || end !== "aws4_request")
    return "of another scope";
  const signed = names.split(";");
  if (!signed.includes("host")) return "the host is not signed";
  const amz = Object.keys(request.headers).filter((name) => name.startsWith("x-amz-"));
  if (amz.some((name) => !signed.includes(name))) return "a header is not signed";
  const payload = presigned ? "UNSIGNED-PAYLOAD" : String(request.headers["x-amz-content-sha256"]);
  const canonical = [
    request.method,
    path,
    parameters
      .filter((each) => !each.startsWith("X-Amz-Signature="))
      .sort()
      .join("&"),
    ...signed.map((name) => `${name}:${String(request.headers[name]).trim()}`),
    "",
    names,
    payload,
  ].join("\n");
  const digest = createHash("sha256").update(canonical).digest("hex");
  const key = hmac(hmac(hmac(hmac(`AWS4${bucket.secret}`, day), region), "s3"), "aws4_request");
  const expected = hmac(key, `AWS4-HMAC-SHA256\n${time}\n${day}/${region}/s3/aws4_request\n${digest}`).toString("hex");
  return expected === signature ? undefined : "the signature is another";
}
