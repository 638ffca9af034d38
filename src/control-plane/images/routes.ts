// The operations on images, mounted.
import type { FastifyInstance } from "fastify";
import {
  cleanUpImages,
  deleteImage,
  deleteImageTag,
  getImage,
  listImages,
  listSandboxHub,
} from "../../contract/image.ts";
import { implement } from "../../contract/implement.ts";
import { callerOf } from "../app.ts";
import type { ImageService } from "./service.ts";

export function mountImages(app: FastifyInstance, service: ImageService): void {
  implement(app, listImages, (_, request) => service.list(callerOf(request)));

  implement(app, getImage, ({ params }, request) =>
    service.get(callerOf(request), params.resourceType, params.imageName),
  );

  implement(app, deleteImage, ({ params }, request) =>
    service.delete(callerOf(request), params.resourceType, params.imageName),
  );

  implement(app, deleteImageTag, ({ params }, request) =>
    service.delete(callerOf(request), params.resourceType, params.imageName, params.tagName),
  );

  implement(app, cleanUpImages, (_, request) => service.cleanUp(callerOf(request)));

  implement(app, listSandboxHub, () => service.hub());
}
