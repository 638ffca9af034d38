// Receives all traffic meant for sandboxes and hands it to the host that runs them.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Directory, Host } from "../contract/host.ts";
import type { Logger } from "../core/log.ts";
import { timingOf } from "../core/timing.ts";
import { GatewayError, refuseUpgrade, sendGatewayError } from "./gateway-error.ts";
import { OpenConnections } from "./open-connections.ts";
import { Previews } from "./previews/previews.ts";
import { findHostAddress, resolveTarget } from "./resolve.ts";

export type EdgeOptions = {
  directory: Directory;
  host: Pick<Host, "handle" | "upgrade">;
  pathPrefix: string;
  sandboxDomain: string | undefined;
  /** Callers reach the platform by `https`. */
  isSecure?: boolean;
  log: Logger;
  /** For tests; see OpenConnections. */
  recheckIntervalMs?: number;
  recheckTimeoutMs?: number;
};

export type Edge = {
  /** Whether the request names a sandbox or a preview in its Host: then every path of it is the sandbox's. */
  owns(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
};

export function createEdge(options: EdgeOptions): Edge {
  const { host, log, isSecure = false } = options;
  const previews = new Previews({ ...options, isSecure });
  const open = new OpenConnections({
    log,
    intervalMs: options.recheckIntervalMs,
    timeoutMs: options.recheckTimeoutMs,
  });

  const asGatewayError = (error: unknown): GatewayError => {
    if (error instanceof GatewayError) return error;
    log.error({ err: error }, "edge failed");
    return new GatewayError("INTERNAL", "An internal error occurred.", { cause: error });
  };

  return {
    owns: (request) => findHostAddress(request, options.sandboxDomain) !== undefined || previews.owns(request),
    handle(request, response) {
      timingOf(request);
      const preview = previews.findAddress(request);
      if (preview !== undefined) {
        previews
          .handle(preview, request, response)
          .catch((error: unknown) => sendGatewayError(asGatewayError(error), request, response));
        return;
      }
      if (isBarePreflight(request)) return answerPreflight(request, response);
      resolveTarget(request, options).then(
        ({ instanceId, rest, recheck }) => {
          request.url = rest;
          open.add(response, recheck);
          host.handle(instanceId, request, response);
        },
        (error: unknown) => sendGatewayError(asGatewayError(error), request, response),
      );
    },
    upgrade(request, socket, head) {
      timingOf(request);
      socket.on("error", (error) => log.debug({ err: error }, "upgraded connection failed"));
      const preview = previews.findAddress(request);
      if (preview !== undefined) {
        previews
          .upgrade(preview, request, socket, head)
          .catch((error: unknown) => refuseUpgrade(asGatewayError(error), request, socket));
        return;
      }
      resolveTarget(request, options).then(
        ({ instanceId, rest, recheck }) => {
          request.url = rest;
          open.add(socket, recheck);
          host.upgrade(instanceId, request, socket, head);
        },
        (error: unknown) => refuseUpgrade(asGatewayError(error), request, socket),
      );
    },
  };
}

/** A browser's CORS preflight carries no credential by design; it learns what is allowed and wakes nothing. */
function isBarePreflight({ method, headers }: IncomingMessage): boolean {
  return method === "OPTIONS" && headers.authorization === undefined && headers["x-blaxel-authorization"] === undefined;
}

function answerPreflight(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(204, {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
    "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "*",
    "access-control-max-age": "600",
    "server-timing": timingOf(request).header(),
  });
  response.end();
}
