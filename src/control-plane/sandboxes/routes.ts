// The operations on sandboxes, mounted.
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { SandboxErrorBody } from "../../contract/error.ts";
import { implement } from "../../contract/implement.ts";
import { bareListVersion } from "../../contract/page.ts";
import {
  createSandbox,
  deleteSandbox,
  getSandbox,
  getSandboxByExternalId,
  listSandboxes,
  type Sandbox,
  updateSandbox,
} from "../../contract/sandbox.ts";
import { AppError } from "../../core/errors.ts";
import { proceed } from "../../core/eventual.ts";
import { timingOf } from "../../core/timing.ts";
import { callerOf, failWith } from "../app.ts";
import type { Failure } from "../failure.ts";
import type { Creations } from "./creation.ts";
import type { SandboxList } from "./list.ts";
import { idempotencyKeyMaxLength } from "./replays.ts";
import type { SandboxService } from "./service.ts";

export type SandboxRoutesOptions = { service: SandboxService; creations: Creations; list: SandboxList };

export function mountSandboxes(app: FastifyInstance, { service, creations, list }: SandboxRoutesOptions): void {
  implement(
    app,
    createSandbox,
    ({ query, body }, request) =>
      creations.create({
        caller: callerOf(request),
        input: body,
        reuse: query.createIfNotExist ?? false,
        idempotencyKey: readIdempotencyKey(request),
        timing: timingOf(request.raw),
      }),
    { errorHandler: failWith(formatSandboxError) },
  );

  implement(app, listSandboxes, async ({ query }, request, reply) => {
    const caller = callerOf(request);
    if (request.apiVersion !== bareListVersion) {
      return timingOf(request.raw).measure("store", () => list.page(caller, query));
    }
    const chunks = list.all(caller, query);
    // The first chunk is fetched before the answer begins, so that a query that is refused still gets its status.
    const first = await timingOf(request.raw).measure("store", () => chunks.next());
    if (first.done) return [];
    reply.header("content-type", "application/json; charset=utf-8");
    const serialize = (items: Sandbox[]): string =>
      reply.serializeInput(items as object as Record<string, unknown>, "200") as string;
    return reply.send(Readable.from(writeArray(first.value, chunks, serialize)));
  });

  implement(app, getSandbox, ({ params, query }, request, reply) => {
    const caller = callerOf(request);
    const { sandboxName } = params;
    const timing = timingOf(request.raw);
    if (query.show_secrets) return timing.measure("store", () => service.getWithSecrets(caller, sandboxName));
    const serialize = (sandbox: Sandbox): string => reply.serializeInput(sandbox, "200") as string;
    return proceed(
      timing.measure("store", () => service.getText(caller, sandboxName, serialize)),
      (text) => reply.header("content-type", "application/json; charset=utf-8").send(text),
    );
  });

  implement(app, getSandboxByExternalId, ({ params, query }, request) =>
    timingOf(request.raw).measure("store", () =>
      service.getByExternalId(callerOf(request), params.externalId, query.show_secrets ?? false),
    ),
  );

  implement(app, updateSandbox, ({ params, body }, request) =>
    service.update({
      caller: callerOf(request),
      name: params.sandboxName,
      input: body,
      timing: timingOf(request.raw),
    }),
  );

  implement(app, deleteSandbox, ({ params }, request) =>
    timingOf(request.raw).measure("store", () => service.delete(callerOf(request), params.sandboxName)),
  );
}

/** Each chunk by the schema of the answer, as everything that is answered. */
async function* writeArray(
  first: Sandbox[],
  rest: AsyncIterable<Sandbox[]>,
  serialize: (items: Sandbox[]) => string,
): AsyncGenerator<string> {
  yield serialize(first).slice(0, -1);
  for await (const chunk of rest) if (chunk.length > 0) yield `,${serialize(chunk).slice(1, -1)}`;
  yield "]";
}

function readIdempotencyKey({ raw }: FastifyRequest): string | undefined {
  const key = raw.headers["idempotency-key"];
  if (key === undefined) return undefined;
  if (typeof key === "string" && key.length <= idempotencyKeyMaxLength && /^[\x21-\x7e]+$/.test(key)) return key;
  throw new AppError(
    "invalid_request",
    `Idempotency-Key must be 1 to ${idempotencyKeyMaxLength} visible ASCII characters`,
  );
}

/** Codes that say how far the creation came. */
const steps: Readonly<Record<number, string>> = {
  401: "authenticate",
  403: "authorize",
  500: "create_instance",
  503: "create_instance",
};

function formatSandboxError({ status, error, message, details }: Failure, request: FastifyRequest): SandboxErrorBody {
  const { code, reason, ...rest } = details;
  const name = (request.body as { metadata?: { name?: unknown } } | undefined)?.metadata?.name;
  return {
    error,
    code: typeof code === "string" ? code : error.toUpperCase(),
    message,
    ...(typeof name === "string" && { sandbox_name: name.slice(0, 100) }),
    status_code: status,
    step: steps[status] ?? "validate_and_prepare",
    timestamp: new Date().toISOString(),
    ...(request.caller && { workspace: request.caller.workspace }),
    ...(typeof reason === "string" && { reason }),
    ...(Object.keys(rest).length > 0 && { details: rest }),
  };
}
