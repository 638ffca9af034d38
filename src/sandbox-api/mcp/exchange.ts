// Answers one message of the protocol with a server made for it: nothing is kept between messages.
import type { McpServerFactory, Server } from "@modelcontextprotocol/server";
import type { ToolCall } from "./tool.ts";
import { findTool, toolDescriptions } from "./tools.ts";

type Sdk = typeof import("@modelcontextprotocol/server");

const identity = { name: "Sandbox API Server", version: "1.0.0" };
const url = "http://sandbox/mcp";

let loading: Promise<Sdk> | undefined;

/** Loaded with the first message: it takes longer than everything else at a start. */
function loadSdk(): Promise<Sdk> {
  loading ??= import("@modelcontextprotocol/server");
  return loading;
}

export type Exchange = { message: unknown; headers: Headers; call: ToolCall };

/** Headers that say which revision of the protocol a message is written in. */
export function protocolHeaders(given: NodeJS.Dict<string | string[]>): Headers {
  // What is answered is JSON, whatever else a client takes.
  const headers = new Headers({ "content-type": "application/json", accept: "application/json, text/event-stream" });
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("mcp-") && name !== "mcp-session-id" && typeof value === "string") headers.set(name, value);
  }
  return headers;
}

/** Revisions from 2026 on carry in each message what earlier ones agree on first; the library tells them apart. */
export async function answerMessage({ message, headers, call }: Exchange): Promise<Response> {
  const sdk = await loadSdk();
  const request = new Request(url, { method: "POST", headers, signal: call.signal });
  if (await sdk.isLegacyRequest(request, message)) {
    return answerEarlier(sdk, () => createServer(sdk, call), request, message);
  }
  // In these revisions a client cancels by closing the request; what earlier ones send instead names no caller.
  return answerModern(sdk, () => createServer(sdk, { ...call, leavingCancels: true }), request, message);
}

async function answerEarlier(sdk: Sdk, makeServer: () => Server, request: Request, message: unknown) {
  const transport = new sdk.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  const server = makeServer();
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, { parsedBody: message });
  } finally {
    await server.close();
  }
}

/** No subscriptions: nothing that is listed here ever changes. */
async function answerModern(sdk: Sdk, makeServer: McpServerFactory, request: Request, message: unknown) {
  const handler = sdk.createMcpHandler(makeServer, { legacy: "reject", maxSubscriptions: 0 });
  try {
    const response = await handler.fetch(request, { parsedBody: message });
    return new Response(await response.text(), response);
  } finally {
    await handler.close();
  }
}

function createServer(sdk: Sdk, call: ToolCall): Server {
  const server = new sdk.Server(identity, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", () => ({ tools: toolDescriptions }));
  server.setRequestHandler("tools/call", async ({ params }) => {
    const tool = findTool(params.name);
    if (tool === undefined) {
      const name = params.name.slice(0, 100);
      throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, `There is no tool '${name}'.`);
    }
    return tool.call(params.arguments ?? {}, call);
  });
  return server;
}
