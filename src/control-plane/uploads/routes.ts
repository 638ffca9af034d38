// The one route of uploads: open to whoever has a signed URL, with a body that is streamed instead of parsed.
import type { FastifyInstance } from "fastify";
import type { Receiver } from "./receive.ts";
import { type UploadQuery, uploadPath } from "./upload-url.ts";

export async function mountUploads(app: FastifyInstance, receiver: Receiver): Promise<void> {
  await app.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    // The handler reads the body itself, whatever it is called; the server would refuse a malformed type.
    scope.addHook("onRequest", async (request) => {
      delete request.raw.headers["content-type"];
    });
    scope.addContentTypeParser("*", (_request, _body, parsed) => parsed(null, undefined));
    scope.put(uploadPath, async (request, reply) => {
      const { versionId } = request.params as { versionId: string };
      const { workspaceId } = await receiver.receive(versionId, request.query as UploadQuery, request.raw);
      request.audited = { workspace_id: workspaceId };
      return reply.code(200).header("cache-control", "no-store").send();
    });
    done();
  });
}
