// Answers CORS preflights of previews whose answer is known without asking the program inside: they wake nothing.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { PreviewRoute } from "../../contract/host.ts";
import { sessionPort } from "../../contract/preview.ts";
import { timingOf } from "../../core/timing.ts";

export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === "OPTIONS" && headers.origin !== undefined && headers["access-control-request-method"] !== undefined;
}

/** Browsers put no credential into a preflight: where one is needed, the program inside is never asked. */
export function isAnsweredHere({ isPublic, responseHeaders }: PreviewRoute): boolean {
  return !isPublic || findAllowed(responseHeaders) !== undefined;
}

/** What the owner's headers leave open is allowed; without an origin of theirs nothing is, but for the sandbox API. */
export function answerPreflight(request: IncomingMessage, response: ServerResponse, route: PreviewRoute): void {
  const isOpen = findAllowed(route.responseHeaders) !== undefined;
  const isSession = route.port === sessionPort;
  response.writeHead(204, {
    ...(isSession && !isOpen && { "access-control-allow-origin": "*" }),
    ...((isOpen || isSession) && {
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
      "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "*",
    }),
    "access-control-max-age": "600",
    "server-timing": timingOf(request).header(),
  });
  response.end();
}

function findAllowed(headers: PreviewRoute["responseHeaders"]): string | undefined {
  return Object.keys(headers).find((name) => name.toLowerCase() === "access-control-allow-origin");
}
