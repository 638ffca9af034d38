// Finds the credential and the chosen workspace in a request's headers and query.
import type { IncomingHttpHeaders } from "node:http";
import { AppError } from "../../core/errors.ts";

/** Longer than any key; what is longer is not looked at. */
const credentialMaxLength = 8_192;

/** `x-blaxel-authorization` is what clients of the service send; it wins, since `Authorization` may belong to a proxy. */
export function readCredential(headers: IncomingHttpHeaders): string {
  const credential = readBearer(headers["x-blaxel-authorization"]) ?? readBearer(headers.authorization);
  if (credential !== undefined) return credential;
  throw new AppError("unauthenticated", "Send an API key as `Authorization: Bearer <key>`.");
}

function readBearer(header: string | string[] | undefined): string | undefined {
  if (typeof header !== "string" || header.length > credentialMaxLength) return undefined;
  if (header.slice(0, 7).toLowerCase() !== "bearer ") return undefined;
  return header.slice(7).trim() || undefined;
}

/** The workspace a request names by header or query, or undefined: the credential's own is meant. */
export function readWorkspaceChoice(headers: IncomingHttpHeaders, query: unknown): string | undefined {
  const choice = headers["x-blaxel-workspace"] ?? (query as Record<string, unknown>).workspace;
  if (choice === undefined || choice === "") return undefined;
  if (typeof choice === "string") return choice;
  throw new AppError("invalid_request", "Name one workspace only.");
}
