// The operations on volume templates, mounted.
import type { FastifyInstance, FastifyReply } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  createVolumeTemplate,
  deleteVolumeTemplate,
  deleteVolumeTemplateVersion,
  getVolumeTemplate,
  listVolumeTemplates,
  upsertVolumeTemplate,
  type VolumeTemplate,
} from "../../contract/volume-template.ts";
import { callerOf } from "../app.ts";
import type { Answer, VolumeTemplateService } from "./service.ts";

export function mountVolumeTemplates(app: FastifyInstance, service: VolumeTemplateService): void {
  implement(app, listVolumeTemplates, (_input, request) => service.list(callerOf(request)));

  implement(app, createVolumeTemplate, async ({ body, query }, request, reply) =>
    withHeaders(reply, await service.create(callerOf(request), body, query)),
  );

  implement(app, getVolumeTemplate, ({ params }, request) => service.get(callerOf(request), params.volumeTemplateName));

  implement(app, upsertVolumeTemplate, async ({ params, body, query }, request, reply) =>
    withHeaders(reply, await service.upsert(callerOf(request), params.volumeTemplateName, body, query)),
  );

  implement(app, deleteVolumeTemplate, ({ params }, request) =>
    service.delete(callerOf(request), params.volumeTemplateName),
  );

  implement(app, deleteVolumeTemplateVersion, async ({ params }, request) => ({
    message: "The version was deleted.",
    template: await service.deleteVersion(callerOf(request), params.volumeTemplateName, params.versionName),
  }));
}

function withHeaders(reply: FastifyReply, { template, headers }: Answer): VolumeTemplate {
  reply.headers(headers);
  return template;
}
