// What a sandbox tells of its API: the OpenAPI document, the same as a page, and that there is no environment to reload.
import { reloadEnvironment } from "../../contract/sandbox-api/environment.ts";
import { sandboxDocument } from "../../contract/sandbox-document.ts";
import { AppError } from "../../core/errors.ts";
import { type App, route } from "../route.ts";
import { referencePage } from "./reference-page.ts";

export function registerReferenceRoutes(app: App): void {
  const document = sandboxDocument();
  const json = JSON.stringify(document);
  const page = referencePage(document);
  const method = ["GET", "HEAD"];

  app.route({
    method,
    url: "/openapi.json",
    handler: (_request, reply) => reply.type("application/json; charset=utf-8").send(json),
  });

  app.route({
    method,
    url: "/swagger",
    handler: (_request, reply) =>
      reply
        .type("text/html; charset=utf-8")
        .header("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
        .header("referrer-policy", "no-referrer")
        .send(page),
  });

  /** Each process gets the environment the sandbox has when it starts: nothing is read once and kept. */
  route(app, reloadEnvironment, () => {
    throw new AppError(
      "not_found",
      "There is no /bl/metadata to reload: every new process gets the sandbox's environment as it is then.",
    );
  });
}
