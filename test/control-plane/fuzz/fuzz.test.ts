// Thousands of valid and broken requests, drawn from the platform's own OpenAPI document: none ends in a server error or is left without
// an answer, every failure has the body that the specification promises, and every success is what the document says.
import assert from "node:assert/strict";
import { Agent, type IncomingHttpHeaders, request, type ServerResponse } from "node:http";
import { test } from "node:test";
import fc from "fast-check";
import { Compile } from "typebox/compile";
import { controlPlaneDocument } from "../../../src/contract/control-plane-document.ts";
import { ErrorBody } from "../../../src/contract/error.ts";
import { controlPlaneOperations } from "../../../src/contract/operations.ts";
import { openListener } from "../../../src/dev/listener.ts";
import { type Server, startServer } from "../harness.ts";
import { type FuzzRequest, requestsOf } from "./requests.ts";

const requestsTotal = 20_000;
const atOnce = 16;
const answerTimeoutMs = 30_000;
/** CATNAP_FUZZ_SEED=<number> draws other requests. */
const seed = Number(process.env.CATNAP_FUZZ_SEED ?? 20_000);

const failureBody = Compile(ErrorBody);
const operations = new Map(controlPlaneOperations.map((operation) => [operation.operationId, operation]));
const failureBodies = new Map(
  controlPlaneOperations.map(({ operationId, errorBody }) => [
    operationId,
    errorBody ? Compile(errorBody) : failureBody,
  ]),
);
const successBodies = new Map(
  controlPlaneOperations.map(({ operationId, response }) => [operationId, Compile(response)]),
);

type Answer = { status: number; headers: IncomingHttpHeaders; text: string };

function send(origin: string, apiKey: string, agent: Agent, fuzzed: FuzzRequest): Promise<Answer> {
  const { method, path, headers, body } = fuzzed;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const { hostname, port } = new URL(origin);
  const sent = request(
    {
      hostname,
      port,
      method,
      path,
      agent,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...headers,
        ...(body !== undefined && { "content-length": Buffer.byteLength(body) }),
      },
      timeout: answerTimeoutMs,
    },
    (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      response.on("error", reject);
    },
  );
  sent.on("timeout", () => sent.destroy(new Error("no answer")));
  sent.on("error", reject);
  sent.end(body);
  return promise;
}

/** Undefined when the answer is as promised, else what is wrong with it. */
function faultOf({ operationId }: FuzzRequest, { status, headers, text }: Answer): string | undefined {
  if (status >= 500) return `status ${status}`;
  if (headers["server-timing"] === undefined) return "no Server-Timing";
  if (!headers["content-type"]?.startsWith("application/json")) return `content type ${headers["content-type"]}`;
  const body = parse(text);
  if (status === 200) return successBodies.get(operationId)!.Check(body) ? undefined : "not what the document says";
  const isPromised = failureBodies.get(operationId)!.Check(body) || failureBody.Check(body);
  if (!isPromised) return "the failure has another body";
  const { code, status_code } = body as { code: unknown; status_code?: number };
  return code === status || status_code === status ? undefined : "the code is not the status";
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

test(`${requestsTotal} requests drawn from the document are all answered as it promises`, async () => {
  await using server = await startServer();
  await using listener = await listenFor(server);
  const document = controlPlaneDocument("http://127.0.0.1");
  const requests = fc.sample(requestsOf(controlPlaneOperations, document), { numRuns: requestsTotal, seed });
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  const faults: string[] = [];
  const seen = new Map<string, Set<number>>();
  const queue = requests.values();
  const worker = async (): Promise<void> => {
    for (const fuzzed of queue) {
      if (faults.length > 20) return;
      const answer = await send(listener.origin, server.apiKey, agent, fuzzed).catch((error: Error) => error);
      const fault = answer instanceof Error ? answer.message : faultOf(fuzzed, answer);
      if (fault !== undefined) faults.push(describe(fault, fuzzed, answer));
      if (answer instanceof Error) continue;
      const statuses = seen.get(fuzzed.operationId) ?? new Set();
      seen.set(fuzzed.operationId, statuses.add(answer.status));
    }
  };
  try {
    await Promise.all(Array.from({ length: atOnce }, worker));
  } finally {
    agent.destroy();
  }
  assert.deepEqual(faults, [], `seed ${seed}`);
  for (const [operationId] of operations) {
    const statuses = [...(seen.get(operationId) ?? [])];
    assert.ok(statuses.length > 1, `${operationId} was only ever answered with ${statuses.join(", ")}`);
  }
  // Still alive, and nothing was set on the prototype of everything.
  assert.equal((await server.call("GET", "/v0/workspaces")).status, 200);
  assert.deepEqual(Object.keys(Object.prototype), []);
});

/** The listener of a whole platform: what the parser of HTTP refuses is answered there. */
async function listenFor({ controlPlane }: Server) {
  const listener = await openListener("127.0.0.1:0");
  const elsewhere = (_request: unknown, response: ServerResponse): void => void response.writeHead(501).end();
  listener.serve({
    controlPlane: (request, response) => controlPlane.app.routing(request, response),
    edge: { owns: () => false, handle: elsewhere, upgrade: (_request, socket) => void socket.destroy() },
  });
  return listener;
}

function describe(fault: string, { method, path, headers, body }: FuzzRequest, answer: Answer | Error): string {
  const sent = `${method} ${path.slice(0, 300)} ${JSON.stringify(headers)} ${body?.slice(0, 400) ?? ""}`;
  return answer instanceof Error
    ? `${fault}: ${sent}`
    : `${fault}: ${sent} -> ${answer.status} ${answer.text.slice(0, 300)}`;
}
