// Binds a declared operation to its handler: validates what the declaration says and hands over typed parts.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import type { Endpoint } from "../contract/endpoint.ts";
import { describeProblems, type InputPart } from "../contract/input.ts";
import { AppError } from "../core/errors.ts";
import { type Timing, timingOf } from "../core/timing.ts";
import { type SessionContext, sessionOf } from "./session-context.ts";
import { readUrlValues } from "./url-values.ts";

export type App = FastifyInstance;

type Part<Schema> = Schema extends TSchema ? Static<Schema> : undefined;

export type Call<Declared extends Endpoint> = {
  params: Part<Declared["params"]>;
  query: Part<Declared["query"]>;
  body: Part<Declared["body"]>;
  session: SessionContext;
  timing: Timing;
  request: FastifyRequest;
  reply: FastifyReply;
};

export type RouteOptions = {
  /** Additional paths of the same operation. */
  paths?: readonly string[];
  bodyMaxBytes?: number;
  /** The handler reads a body that is not JSON itself. */
  acceptsForm?: boolean;
  /** The handler reads the body's bytes itself, whatever they are; `app` must leave them alone. */
  streamsBody?: boolean;
};

export function route<Declared extends Endpoint>(
  app: App,
  declared: Declared,
  handle: (call: Call<Declared>) => unknown,
  { paths = [], bodyMaxBytes, acceptsForm = false, streamsBody = false }: RouteOptions = {},
): void {
  const params = validator("params", declared.params);
  const query = validator("query", declared.query);
  const body = validator("body", declared.body);
  for (const url of [declared.path, ...paths]) {
    app.route({
      method: declared.method === "GET" ? ["GET", "HEAD"] : declared.method,
      url,
      bodyLimit: bodyMaxBytes,
      config: { streamsBody },
      handler: async (request, reply) => {
        const isForm = acceptsForm && isMultipart(request);
        return handle({
          params: params(request.params) as Part<Declared["params"]>,
          query: query(request.query) as Part<Declared["query"]>,
          body: (isForm ? undefined : body(request.body ?? {})) as Part<Declared["body"]>,
          session: sessionOf(request.raw),
          timing: timingOf(request.raw),
          request,
          reply,
        });
      },
    });
  }
}

export function isMultipart(request: FastifyRequest): boolean {
  return /^multipart\/form-data\b/i.test(request.headers["content-type"] ?? "");
}

/** Text is read as what it stands for where a URL carried it; a body must have the right types by itself. */
function validator(part: InputPart, schema: TSchema | undefined): (value: unknown) => unknown {
  if (schema === undefined) return () => undefined;
  const compiled = Compile(schema);
  return (value) => {
    const read = part === "body" ? withoutNulls(value) : readUrlValues(schema, value as object);
    if (compiled.Check(read)) return read;
    throw new AppError("invalid_request", describeProblems(compiled.Errors(read), schema, part));
  };
}

/** Clients write null for a member they leave out. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
}
