// Serves the OpenAPI document at /v0/openapi.json and a reference page made of it at /docs; both are open to everyone.
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { FastifyInstance } from "fastify";
import { controlPlaneDocument } from "../contract/control-plane-document.ts";

export const documentPath = "/v0/openapi.json";
export const referencePath = "/docs";

/** The page runs its own scripts only, asks this platform only, and cannot be shown inside of another. */
const contentSecurityPolicy = {
  "default-src": ["'none'"],
  "script-src": ["'self'"],
  // The page styles its elements from scripts.
  "style-src": ["'self'", "'unsafe-inline'"],
  "img-src": ["'self'", "data:"],
  "connect-src": ["'self'"],
  "base-uri": ["'none'"],
  "form-action": ["'none'"],
  "frame-ancestors": ["'none'"],
};

export async function mountDocuments(app: FastifyInstance, { origin }: { origin: string }): Promise<void> {
  const document = controlPlaneDocument(origin);
  const text = JSON.stringify(document);
  app.get(documentPath, (_request, reply) => {
    reply.header("content-type", "application/json; charset=utf-8").header("access-control-allow-origin", "*");
    return reply.send(text);
  });
  await app.register(async (scope) => {
    scope.addHook("onSend", async (_request, reply) => {
      reply.header("x-content-type-options", "nosniff").header("referrer-policy", "no-referrer");
    });
    // The library takes the document in its own, equivalent type.
    await scope.register(swagger, { mode: "static", specification: { document: document as never } });
    await scope.register(swaggerUi, {
      routePrefix: referencePath,
      staticCSP: contentSecurityPolicy,
      // The bar on top is the library's own: its name, and a box for the addresses of other documents.
      theme: {
        title: "catnap API",
        css: [{ filename: "theme.css", content: ".swagger-ui .topbar { display: none }" }],
      },
      uiConfig: { docExpansion: "none", tagsSorter: "alpha", validatorUrl: null, tryItOutEnabled: false },
    });
  });
}
