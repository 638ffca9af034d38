// The operations on previews and their tokens, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  createSandboxPreview,
  createSandboxPreviewToken,
  deleteSandboxPreview,
  deleteSandboxPreviewToken,
  getSandboxPreview,
  listSandboxPreviews,
  listSandboxPreviewTokens,
  updateSandboxPreview,
} from "../../contract/preview.ts";
import { callerOf } from "../app.ts";
import type { PreviewService } from "./service.ts";

export function mountPreviews(app: FastifyInstance, service: PreviewService): void {
  implement(app, listSandboxPreviews, ({ params }, request) => service.list(callerOf(request), params.sandboxName));
  implement(app, createSandboxPreview, ({ params, query, body }, request) =>
    service.create(callerOf(request), params.sandboxName, body, query.force ?? false),
  );
  implement(app, getSandboxPreview, ({ params }, request) => service.get(callerOf(request), params));
  implement(app, updateSandboxPreview, ({ params, body }, request) => service.update(callerOf(request), params, body));
  implement(app, deleteSandboxPreview, ({ params }, request) => service.delete(callerOf(request), params));
  implement(app, listSandboxPreviewTokens, ({ params }, request, reply) => {
    reply.header("cache-control", "no-store");
    return service.listTokens(callerOf(request), params);
  });
  implement(app, createSandboxPreviewToken, ({ params, body }, request, reply) => {
    reply.header("cache-control", "no-store");
    return service.createToken(callerOf(request), params, body);
  });
  implement(app, deleteSandboxPreviewToken, ({ params }, request) =>
    service.deleteToken(callerOf(request), params, params.tokenName),
  );
}
