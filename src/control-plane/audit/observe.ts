// Decides which requests the audit log tells of, and what it tells: never a value that could be a secret.
import type { FastifyReply, FastifyRequest } from "fastify";
import { TokenBuckets } from "../../core/token-buckets.ts";
import { networkOf } from "../auth/client-network.ts";
import type { AuditDraft, AuditService } from "./service.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** What a handler knows better than path and answer say. */
    audited: AuditNote | undefined;
  }
}

export type AuditNote = Partial<
  Pick<
    AuditDraft,
    "workspace_id" | "workspace" | "principal_id" | "principal_name" | "principal_kind" | "credential_id" | "resource"
  >
>;

export type AuditObserver = {
  /** Before the answer to a declared operation goes out; what it returns is to be waited for: a change that is being recorded. */
  beforeAnswer(request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<void> | undefined;
  /** After answers that no declared operation gave, such as those of signing in and of uploads. */
  afterAnswer(request: FastifyRequest, reply: FastifyReply): void;
};

/** Refusals cost whoever causes them nothing: few of an address are told of, and not many of all. */
const refusalsPerAddress = { perSecond: 0.5, burst: 20 };
const refusalsOfAll = { perSecond: 5, burst: 200 };

const changing = new Set(["POST", "PUT"]);

const textMaxLength = 200;
/** Names are looked for in answers up to this size. */
const answerMaxLength = 65_536;

export function createAuditObserver(audit: Pick<AuditService, "record">): AuditObserver {
  const perAddress = new TokenBuckets(refusalsPerAddress);
  const ofAll = new TokenBuckets(refusalsOfAll);
  const isTold = (request: FastifyRequest): boolean =>
    perAddress.take(networkOf(request.ip ?? "")) === 0 && ofAll.take("all") === 0;
  return {
    beforeAnswer(request, reply, payload) {
      const { endpoint } = request.routeOptions.config;
      const { statusCode: status } = reply;
      if (endpoint === undefined || status === 429) return undefined;
      if (status === 401 || status === 403) {
        if (isTold(request)) void audit.record(draftOf(request, status, undefined));
        return undefined;
      }
      if (request.principal === undefined || endpoint.method === "GET" || endpoint.changes === false) return undefined;
      return audit.record(draftOf(request, status, payload));
    },
    afterAnswer(request, reply) {
      const { config, url } = request.routeOptions;
      const status = reply.raw.statusCode;
      if (config.endpoint !== undefined || url === undefined || !changing.has(request.method) || status === 429) return;
      if (status >= 400 && !isTold(request)) return;
      void audit.record(draftOf(request, status, undefined));
    },
  };
}

function draftOf(request: FastifyRequest, status: number, payload: unknown): AuditDraft {
  const { principal, caller, audited, failure } = request;
  return {
    workspace_id: caller?.workspaceId ?? null,
    workspace: caller?.workspace ?? null,
    principal_id: principal?.principalId ?? null,
    principal_name: principal?.principalName ?? null,
    principal_kind: principal?.kind ?? null,
    credential_id: principal?.credentialId ?? null,
    operation: `${request.method} ${(request.routeOptions.url ?? "").replace(/^\/v0/, "")}`,
    resource: nameInPath(request) ?? (status === 200 ? nameInAnswer(payload) : null),
    status,
    error: failure?.error ?? null,
    address: request.ip ?? null,
    request_id: request.id,
    ...audited,
  };
}

/** Parameters of the path that are secrets themselves. */
const secretParams = new Set(["tokenName", "uid"]);

function nameInPath(request: FastifyRequest): string | null {
  const params = Object.entries((request.params ?? {}) as Record<string, unknown>);
  const names = params.filter(([key, value]) => typeof value === "string" && !secretParams.has(key));
  return names.length === 0 ? null : clean(names.map(([, value]) => value).join("/"));
}

/** Of what was made. The body of the request is not looked at: it may be anything. */
function nameInAnswer(payload: unknown): string | null {
  if (typeof payload !== "string" || payload.length > answerMaxLength) return null;
  try {
    const { metadata, client_id, email, id, name } = (JSON.parse(payload) ?? {}) as Record<string, unknown>;
    const given = [(metadata as { name?: unknown } | undefined)?.name, client_id, email, id, name];
    const text = given.find((each) => typeof each === "string");
    return text === undefined ? null : clean(text as string);
  } catch {
    return null;
  }
}

function clean(text: string): string {
  return text.replaceAll(/[\u0000-\u001f\u007f]/g, "?").slice(0, textMaxLength);
}
