// The HTTP server of the control plane: guards every declared operation, times and logs requests, and answers errors in one shape.
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { type AllowedMethods, allowedMethodsOf } from "../contract/allowed-methods.ts";
import type { Endpoint } from "../contract/endpoint.ts";
import { apiVersions, bareListVersion } from "../contract/page.ts";
import { AppError } from "../core/errors.ts";
import { type Eventual, proceed } from "../core/eventual.ts";
import { randomToken } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import { timingOf } from "../core/timing.ts";
import type { AuditObserver } from "./audit/observe.ts";
import type { Caller } from "./auth/caller.ts";
import type { Guard } from "./auth/guard.ts";
import { describeFailure, type Failure, formatErrorBody } from "./failure.ts";
import { boundRequests, hasBody } from "./request-bounds.ts";

declare module "fastify" {
  interface FastifyRequest {
    apiVersion: string;
    /** For the log. */
    failure: Failure | undefined;
  }
}

export type AppOptions = {
  guard: Guard;
  audit: AuditObserver;
  trustedProxies: readonly string[];
  bodyMaxBytes: number;
  /** In which a body has to arrive that is read as a whole. */
  bodyTimeoutMs: number;
  log: Logger;
  /** Mounts the operations below `/v0`. */
  routes: (app: FastifyInstance) => void;
  /** Mounts what is open to everyone, such as documents: nothing there is guarded. */
  openRoutes?: (app: FastifyInstance) => Promise<void>;
};

export function createApp({ guard, ...server }: AppOptions): Promise<FastifyInstance> {
  return createServer({
    ...server,
    admit: (request) =>
      proceed(guard.admit(request), () => {
        request.apiVersion = readApiVersion(request.raw.headers["blaxel-version"]);
      }),
    readmit: (request) => guard.readmit(request),
  });
}

export type ServerOptions = Omit<AppOptions, "guard" | "audit" | "trustedProxies"> & {
  audit?: AuditObserver;
  trustedProxies?: readonly string[];
  /** Runs before the body is read; throws or rejects when the request may not go on. */
  admit: (request: FastifyRequest) => Eventual<void>;
  /** The same when a body has been read, if that could change anything. */
  readmit?: (request: FastifyRequest) => Eventual<void>;
};

/** What every surface of the control plane has in common, whoever it lets in. */
export async function createServer({
  admit,
  readmit,
  audit,
  trustedProxies = [],
  bodyMaxBytes,
  bodyTimeoutMs,
  log,
  routes,
  openRoutes,
}: ServerOptions): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    bodyLimit: bodyMaxBytes,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    genReqId: nameRequest,
    routerOptions: { maxParamLength: 512 },
    frameworkErrors: (error, request, reply) => sendFailure(error, request, reply),
  });
  app.removeContentTypeParser(["text/plain", "application/json"]);
  // Clients name the type of a body they do not send; where one is needed, its schema refuses that there is none.
  const parseJson = app.getDefaultJsonParser("error", "error");
  app.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, body, done) => {
    if (body === "") done(null, undefined);
    else void parseJson(request, body, done);
  });
  app.decorateRequest("principal", undefined);
  app.decorateRequest("caller", undefined);
  app.decorateRequest("apiVersion", bareListVersion);
  app.decorateRequest("failure", undefined);
  app.decorateRequest("audited", undefined);
  app.setErrorHandler(sendFailure);
  boundRequests(app, { bodyTimeoutMs });
  app.addHook("onRequest", (request, _reply, done) => goOn(admit(request), done));
  if (readmit !== undefined) {
    app.addHook("preValidation", (request, _reply, done) => {
      if (hasBody(request)) goOn(readmit(request), done);
      else done();
    });
  }
  app.addHook("onSend", (request, reply, payload, done) => {
    const answer = (): void => {
      reply.header("server-timing", timingOf(request.raw).header()).header("x-request-id", request.id);
      done(null, payload);
    };
    // Most requests change nothing and wait for nothing.
    const recorded = audit?.beforeAnswer(request, reply, payload);
    if (recorded === undefined) answer();
    else recorded.then(answer, done);
  });
  app.addHook("onResponse", (request, reply, done) => {
    audit?.afterAnswer(request, reply);
    logRequest(log, request, reply);
    done();
  });
  const declared: Endpoint[] = [];
  app.register(
    (scope, _options, done) => {
      // A route without a declaration would be open to everyone: it must not exist.
      scope.addHook("onRoute", ({ config, url }) => {
        if (config?.endpoint === undefined) throw new Error(`the route ${url} is not declared`);
        declared.push(config.endpoint);
      });
      routes(scope);
      done();
    },
    { prefix: "/v0" },
  );
  await openRoutes?.(app);
  answerUnmatched(app, declared);
  await app.ready();
  return app;
}

/** Waits only for what is not there yet. */
function goOn(given: Eventual<void>, done: (error?: Error) => void): void {
  if (given === undefined) done();
  else given.then(() => done(), done);
}

/** A path that exists with other methods names them; nothing is read of the body. */
function answerUnmatched(app: FastifyInstance, declared: readonly Endpoint[]): void {
  let allowedMethods: AllowedMethods | undefined;
  app.setNotFoundHandler((request, reply) => {
    allowedMethods ??= allowedMethodsOf(declared, { servesHead: true });
    const allowed = request.url.startsWith("/v0/") ? allowedMethods(request.url.slice(3)).join(", ") : "";
    if (allowed !== "") reply.header("allow", allowed);
    const error =
      allowed === ""
        ? new AppError("not_found", "There is nothing at this path.")
        : new AppError("method_not_allowed", `Only ${allowed} are possible at this path.`);
    sendFailure(error, request, reply);
  });
}

const processName = randomToken(6);
let requestCount = 0;

/** Tells requests apart across processes and restarts. What a caller names its request is not taken over: logs must not hold it. */
function nameRequest(): string {
  requestCount += 1;
  return `${processName}-${requestCount.toString(36)}`;
}

function readApiVersion(header: string | string[] | undefined): string {
  if (header === undefined || header === "") return bareListVersion;
  if (typeof header === "string" && apiVersions.includes(header)) return header;
  const message = `The version in Blaxel-Version is not one of ${apiVersions.join(", ")}.`;
  throw new AppError("invalid_request", message, { details: { error: "invalid_api_version" } });
}

/** The caller of a guarded request that is about a workspace. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === undefined) throw new AppError("unauthenticated", "The request has no credential.");
  return request.caller;
}

function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  failWith(formatErrorBody)(error, request, reply);
}

/** When whoever met an outage is to ask again; nobody knows how long it takes. */
const outageRetryMs = 2_000;

/** An error handler that answers in the given shape. */
export function failWith(format: (failure: Failure, request: FastifyRequest) => object) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const failure = describeFailure(error);
    request.failure = failure;
    const challenge = challengeFor(failure, request);
    if (challenge !== undefined) reply.header("www-authenticate", challenge);
    // The rest of the body would be taken for the next request.
    if (failure.status === 408) reply.header("connection", "close");
    const { retryAfterMs = failure.status === 503 ? outageRetryMs : undefined } = failure.details;
    if (typeof retryAfterMs === "number") reply.header("retry-after", Math.ceil(retryAfterMs / 1_000));
    reply.code(failure.status).header("content-type", "application/json; charset=utf-8");
    // Refusals of the framework itself pass no hook.
    reply.header("server-timing", timingOf(request.raw).header());
    reply.send(JSON.stringify(format(failure, request)));
  };
}

/** RFC 6750, section 3: whoever sent a credential is told what was wrong with it. */
function challengeFor({ status, details }: Failure, { headers }: FastifyRequest): string | undefined {
  const realm = 'Bearer realm="catnap"';
  if (status === 403 && typeof details.scope === "string") {
    return `${realm}, error="insufficient_scope", scope="${details.scope}"`;
  }
  if (status !== 401) return undefined;
  const isGiven = headers.authorization !== undefined || headers["x-blaxel-authorization"] !== undefined;
  return isGiven ? `${realm}, error="invalid_token"` : realm;
}

/** Reads that succeed are frequent and change nothing: they are logged at `debug` only. */
function logRequest(log: Logger, request: FastifyRequest, reply: FastifyReply): void {
  const { failure } = request;
  const level =
    failure === undefined ? (request.method === "GET" ? "debug" : "info") : failure.status >= 500 ? "error" : "info";
  if (!log.isLevelEnabled(level)) return;
  const fields = {
    requestId: request.id,
    method: request.method,
    route: request.routeOptions.url ?? "unknown",
    sandbox: (request.params as { sandboxName?: string } | undefined)?.sandboxName,
    status: reply.statusCode,
    durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
    workspace: request.caller?.workspace,
    principal: request.principal?.principalId,
    error: failure?.error,
    err: failure?.cause,
  };
  log[level](fields, "request");
}
