// Translates what went wrong on the wire into a failure a person can act on. Servers have several error bodies; all are read here.
import type { IncomingMessage } from "node:http";
import { CliFailure, type FailureKind, printable } from "../failure.ts";

const bodyMaxBytes = 64 * 1024;
const unreachableCodes = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
]);

const certificateCodes = new Set([
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** The connection failed, broke or fell silent. */
export function failureOfTransport(error: unknown, baseUrl: string): CliFailure {
  if (error instanceof CliFailure) return error;
  const origin = originOf(baseUrl);
  const { code, message, name } = error as NodeJS.ErrnoException;
  if (name === "AbortError") return new CliFailure("interrupted", "Interrupted.", { cause: error });
  if (code !== undefined && unreachableCodes.has(code)) {
    return new CliFailure("unreachable", `Cannot reach a platform at ${origin} (${code}).`, {
      cause: error,
      remedy: "Start it with `npm start`, or set CATNAP_URL to where it runs.",
    });
  }
  if (code !== undefined && certificateCodes.has(code)) {
    return new CliFailure("unreachable", `The certificate of ${origin} is not trusted: ${message}.`, {
      cause: error,
      remedy:
        "Use the name that is in it (CATNAP_PUBLIC_URL of the platform, or CATNAP_URL here); NODE_EXTRA_CA_CERTS names the " +
        "file of an authority of your own.",
    });
  }
  const reason = message === "" ? (code ?? "unknown reason") : message;
  return new CliFailure("unreachable", `The connection to ${origin} failed: ${reason}.`, {
    cause: error,
    remedy: "If it happens again, look at the platform's log.",
  });
}

/** The server answered with a status that is not 2xx. Reads and drops its body. */
export async function failureOfResponse(response: IncomingMessage): Promise<CliFailure> {
  const status = response.statusCode ?? 0;
  const text = await readSome(response);
  const { message, code } = readErrorBody(text);
  const said = printable(message ?? `The server answered with status ${status}.`);
  return new CliFailure(kindOfStatus(status), said, { status, code, remedy: remedyOfStatus(status) });
}

function kindOfStatus(status: number): FailureKind {
  if (status === 401 || status === 403) return "unauthorized";
  return status === 404 ? "notFound" : "failure";
}

function remedyOfStatus(status: number): string | undefined {
  if (status === 401) return "Check the API key: CATNAP_API_KEY, or the credentials file of the platform.";
  if (status === 403) return "This key may not do that: use one with the scope it needs.";
  if (status === 429) return "Try again in a moment.";
  if (status >= 500) return "The platform's log says why.";
  return undefined;
}

/** Reads `{error, code, message}`, `{code, message}`, `{error: "text"}` and `{error: {code, message}}`. */
function readErrorBody(text: string): { message?: string; code?: string } {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return {};
  }
  if (typeof body !== "object" || body === null) return {};
  const { error, message, code } = body as Record<string, unknown>;
  if (typeof error === "object" && error !== null) return readErrorBody(JSON.stringify(error));
  return {
    message: typeof message === "string" ? message : typeof error === "string" ? error : undefined,
    code:
      typeof code === "string" ? code : typeof message === "string" && typeof error === "string" ? error : undefined,
  };
}

async function readSome(response: IncomingMessage): Promise<string> {
  let text = "";
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      text += chunk.toString("utf8");
      if (text.length > bodyMaxBytes) break;
    }
  } catch {
    // What came until the connection broke is all there is to say.
  }
  return text;
}

function originOf(baseUrl: string): string {
  return URL.canParse(baseUrl) ? new URL(baseUrl).origin : baseUrl;
}
