// Errors that traffic meets before it reaches a sandbox: one shape, stable codes, and a hint for the program that reads them.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { closeLate } from "../core/late-close.ts";
import { timingOf } from "../core/timing.ts";

const gatewayErrors = {
  ROUTE_NOT_FOUND: [404, false, "Check the URL: it is {base}/{workspace}/sandboxes/{name}/..., as metadata.url says."],
  WORKLOAD_NOT_FOUND: [404, false, "Check the sandbox's name and workspace, or create it."],
  WORKLOAD_UNAVAILABLE: [404, true, "Wait a moment and repeat the request."],
  AUTHENTICATION_REQUIRED: [401, false, "Send an API key as 'Authorization: Bearer <key>'."],
  AUTHENTICATION_FAILED: [401, false, "Use a valid API key or token."],
  PREVIEW_TOKEN_REQUIRED: [401, false, "Send a token of the preview as X-Blaxel-Preview-Token or ?bl_preview_token=."],
  PREVIEW_TOKEN_INVALID: [401, false, "Ask for a new token of the preview."],
  FORBIDDEN: [403, false, "Ask an administrator of the workspace."],
  BAD_REQUEST: [400, false, "Correct the request."],
  INTERNAL: [500, true, "Repeat the request; the platform's log has the reason."],
} as const satisfies Record<string, readonly [status: number, retryable: boolean, action: string]>;

export type GatewayErrorCode = keyof typeof gatewayErrors;

export class GatewayError extends Error {
  override readonly name = "GatewayError";
  readonly code: GatewayErrorCode;

  constructor(code: GatewayErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The error as the head and body of an answer. */
function render(error: GatewayError, request: IncomingMessage) {
  const [status, retryable, action] = gatewayErrors[error.code];
  const body = JSON.stringify({
    error: {
      code: error.code,
      message: error.message,
      status,
      retryable,
      action,
      do_not: retryable ? "Do not recreate the sandbox." : "Do not repeat the request unchanged.",
      origin: "platform",
      timestamp: new Date().toISOString(),
    },
  });
  const headers: Record<string, string | number> = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "access-control-allow-origin": "*",
    "x-blaxel-error-code": error.code,
    "x-blaxel-source": "platform",
    "server-timing": timingOf(request).header(),
  };
  if (status === 401) headers["www-authenticate"] = `${schemeOf(error.code)} realm="catnap"`;
  return { status, headers, body };
}

function schemeOf(code: GatewayErrorCode): string {
  return code.startsWith("PREVIEW_") ? "X-Blaxel-Preview-Token" : "Bearer";
}

export function sendGatewayError(error: GatewayError, request: IncomingMessage, response: ServerResponse): void {
  const { status, headers, body } = render(error, request);
  response.writeHead(status, headers).end(request.method === "HEAD" ? undefined : body);
}

export function refuseUpgrade(error: GatewayError, request: IncomingMessage, socket: Duplex): void {
  const { status, headers, body } = render(error, request);
  const lines = Object.entries({ ...headers, connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`HTTP/1.1 ${status} ${error.code}\r\n${lines.join("")}\r\n${body}`);
  closeLate(socket);
}
