// Reads the bodies of OAuth requests: forms as the standard has them, and JSON as clients of the service send it.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { AppError } from "../../core/errors.ts";
import type { Parameters } from "./bridge.ts";

const bodyMaxBytes = 65_536;
const parametersMax = 50;

/** Replaces every other way of reading bodies in this scope. */
export function readOauthBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const options = { parseAs: "string", bodyLimit: bodyMaxBytes } as const;
  app.addContentTypeParser<string>(
    "application/x-www-form-urlencoded",
    options,
    async (_request: unknown, body: string) => readForm(body),
  );
  app.addContentTypeParser<string>("application/json", options, async (_request: unknown, body: string) =>
    readJson(body),
  );
}

export function parametersOf(request: FastifyRequest): Parameters {
  return (request.body as Parameters | undefined | null) ?? {};
}

/** A parameter that is there exactly once. */
export function single(parameters: Parameters, name: string): string | undefined {
  const value = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
  return typeof value === "string" ? value : undefined;
}

function readForm(body: string): Parameters {
  const parameters: Record<string, string | string[]> = Object.create(null);
  const fields = [...new URLSearchParams(body)];
  if (fields.length > parametersMax) throw tooMany();
  for (const [name, value] of fields) {
    const before = parameters[name];
    if (before === undefined) parameters[name] = value;
    else parameters[name] = [...(typeof before === "string" ? [before] : before), value];
  }
  return parameters;
}

function readJson(body: string): Parameters {
  if (body === "") return {};
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    throw new AppError("invalid_request", "The body is not valid JSON.");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    throw new AppError("invalid_request", "The body must be a JSON object.");
  }
  const parameters: Record<string, string> = Object.create(null);
  const members = Object.entries(parsed);
  if (members.length > parametersMax) throw tooMany();
  for (const [name, value] of members) {
    if (value === null || value === undefined) continue;
    if (typeof value !== "string") throw new AppError("invalid_request", "Members of the body must be texts.");
    parameters[name] = value;
  }
  return parameters;
}

function tooMany(): AppError {
  return new AppError("invalid_request", `There may be at most ${parametersMax} parameters.`);
}
