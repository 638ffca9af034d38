// Renders declared operations as an OpenAPI 3.1 document. A schema with a `title` becomes a component of that name.
import type { TSchema } from "typebox";
import type { Operation } from "./operations.ts";

export type DocumentOptions = {
  title: string;
  description: string;
  server: { url: string; description: string; variables?: Record<string, { default: string; description: string }> };
  operations: readonly Operation[];
  /** Headers that every operation reads. */
  headers?: TSchema;
  /** The body of failures. */
  errorBody: TSchema;
  /** What each tag is about, in the order in which documents show them. */
  tags: Readonly<Record<string, string>>;
  /** Where clients get access tokens; without it the document says only that a credential is needed. */
  oauth?: { authorizationUrl: string; tokenUrl: string; scopes: readonly string[] };
};

export type Document = {
  openapi: "3.1.0";
  paths: Record<string, Record<string, unknown>>;
  components: { schemas: Record<string, unknown>; securitySchemes: Record<string, unknown> };
  [member: string]: unknown;
};

type Json = Record<string, unknown>;

/** The version of this description of the interface (spec section 9). */
const descriptionVersion = "0.0.1";

const failureMeanings: Readonly<Record<number, string>> = {
  400: "The request breaks a rule; the message names the field.",
  401: "The credential is missing, unknown, expired or revoked.",
  403: "The credential does not allow this.",
  404: "There is no such thing in this workspace.",
  409: "It conflicts with what exists or is under way.",
  412: "A condition of the request does not hold.",
  413: "The body is too large.",
  415: "The body is of another type than this operation reads.",
  416: "The range lies outside of the file.",
  422: "It was understood and could not be done.",
  429: "Too many requests; Retry-After says when to try again.",
  500: "An internal error.",
  501: "This platform does not offer it.",
  502: "A service that was asked failed or refused.",
  503: "It is not available at the moment; try again.",
  504: "It took too long.",
};

export function buildOpenApi(options: DocumentOptions): Document {
  const { title, description, server, operations, tags, oauth } = options;
  const components = new Components();
  const paths: Document["paths"] = {};
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:([A-Za-z]+)/g, "{$1}").replace(/\/\*$/, "/{path}");
    paths[path] ??= {};
    paths[path][operation.method.toLowerCase()] = renderOperation(operation, options, components);
  }
  return {
    openapi: "3.1.0",
    info: { title, version: descriptionVersion, description, license: { name: "MIT", identifier: "MIT" } },
    servers: [server],
    tags: Object.entries(tags)
      .filter(([name]) => operations.some(({ tag }) => tag === name))
      .map(([name, text]) => ({ name, description: text })),
    paths: Object.fromEntries(Object.entries(paths).sort(([left], [right]) => (left < right ? -1 : 1))),
    components: {
      schemas: components.sorted(),
      securitySchemes: {
        ...(oauth && { OAuth2: { type: "oauth2", flows: renderFlows(oauth) } }),
        ApiKeyAuth: { type: "http", scheme: "bearer", bearerFormat: "API key" },
      },
    },
  };
}

function renderFlows({ authorizationUrl, tokenUrl, scopes }: NonNullable<DocumentOptions["oauth"]>): Json {
  const described = Object.fromEntries(scopes.map((scope) => [scope, describeScope(scope)]));
  return {
    authorizationCode: { authorizationUrl, tokenUrl, refreshUrl: tokenUrl, scopes: described },
    clientCredentials: { tokenUrl, scopes: described },
  };
}

function describeScope(scope: string): string {
  const [noun, verb] = scope.split(":");
  return verb === undefined ? "Everything" : `${noun}: ${verb}`;
}

function renderOperation(operation: Operation, options: DocumentOptions, components: Components): Json {
  const { operationId, summary, tag, scope, role, body, response, responseHeaders } = operation;
  const scopes = typeof scope === "string" ? [scope] : [...scope];
  return {
    operationId,
    summary,
    ...(role === "admin" && { description: "Only for administrators of the workspace." }),
    tags: [tag],
    security: [...(options.oauth ? [{ OAuth2: scopes }] : []), { ApiKeyAuth: [] }],
    parameters: renderParameters(operation, options, components),
    ...(body && { requestBody: renderBody(body, components) }),
    responses: {
      200: {
        description: "Done.",
        ...(responseHeaders && {
          headers: Object.fromEntries(
            Object.entries(responseHeaders).map(([name, meaning]) => [
              name,
              { description: meaning, schema: { type: "string" } },
            ]),
          ),
        }),
        ...(isNothing(response) ? {} : { content: { "application/json": { schema: components.render(response) } } }),
      },
      ...renderFailures(operation, options, components),
    },
  };
}

function isNothing(schema: TSchema): boolean {
  return (schema as { type?: unknown }).type === "void";
}

function renderBody(body: TSchema, components: Components): Json {
  return { required: !isOptional(body), content: { "application/json": { schema: components.render(body) } } };
}

/** Typebox marks what may be left out with a member of its own that JSON does not show. */
function isOptional(schema: TSchema): boolean {
  return (schema as { "~optional"?: unknown })["~optional"] === true;
}

type ObjectSchema = TSchema & { properties?: Record<string, TSchema>; required?: readonly string[] };

function renderParameters(operation: Operation, { headers }: DocumentOptions, components: Components): Json[] {
  const parameters: Json[] = [];
  const add = (place: "path" | "query" | "header", schema: ObjectSchema | undefined): void => {
    for (const [name, member] of Object.entries(schema?.properties ?? {})) {
      const required = place === "path" || (schema?.required ?? []).includes(name);
      // Documents show what a parameter is for beside it, and not in its schema.
      const { description, ...shape } = components.render(member) as Json;
      parameters.push({ name, in: place, required, ...(description !== undefined && { description }), schema: shape });
    }
  };
  add("path", operation.params);
  if (operation.path.endsWith("/*")) {
    parameters.push({ name: "path", in: "path", required: true, schema: { type: "string" } });
  }
  add("query", operation.query);
  add("header", operation.headers);
  add("header", headers);
  return parameters;
}

function renderFailures(operation: Operation, { errorBody }: DocumentOptions, components: Components): Json {
  // Headers may break a rule, or name a workspace that does not exist, whatever the operation reads besides.
  const usual = [400, 401, 403, 404, 429, 500];
  if (operation.body) usual.push(413, 415);
  const statuses = [...new Set([...usual, ...(operation.errors ?? [])])].sort((left, right) => left - right);
  const schema = components.render(operation.errorBody ?? errorBody);
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      {
        description: failureMeanings[status] ?? "It failed.",
        ...(status === 429 && { headers: { "Retry-After": { description: "Seconds.", schema: { type: "integer" } } } }),
        content: { "application/json": { schema } },
      },
    ]),
  );
}

/** Collects schemas with a title, each once. */
class Components {
  readonly #schemas = new Map<string, unknown>();

  render(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.render(item));
    if (typeof schema !== "object" || schema === null) return schema;
    const { title } = schema as { title?: unknown };
    if (typeof title !== "string") return this.#members(schema);
    const rendered = this.#members(schema);
    const known = this.#schemas.get(title);
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(rendered)) {
      throw new Error(`two different schemas have the title ${title}`);
    }
    this.#schemas.set(title, rendered);
    return { $ref: `#/components/schemas/${title}` };
  }

  sorted(): Record<string, unknown> {
    return Object.fromEntries([...this.#schemas].sort(([left], [right]) => (left < right ? -1 : 1)));
  }

  /** `rule` completes error messages and is no word of JSON Schema: documents show it as the description. */
  #members(schema: object): Json {
    const { rule, title: _title, ...members } = schema as Json & { rule?: string };
    const rendered = Object.fromEntries(
      Object.entries(members).map(([key, member]) => [key, isData(key) ? member : this.render(member)]),
    );
    return typeof rule === "string" && rendered.description === undefined
      ? { ...rendered, description: `Must be ${rule}.` }
      : rendered;
  }
}

/** Members that hold values and not schemas. */
function isData(key: string): boolean {
  return key === "enum" || key === "const" || key === "default" || key === "examples" || key === "required";
}
