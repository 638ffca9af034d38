// The terminal's page, and what its WebSocket's path says to those who want no WebSocket.
import { exposureOf } from "../../contract/exposure.ts";
import { getTerminal, openTerminal } from "../../contract/sandbox-api/terminal.ts";
import { AppError } from "../../core/errors.ts";
import { type App, route } from "../route.ts";
import type { SessionContext } from "../session-context.ts";
import { loadTerminalPage } from "./terminal-page.ts";

export function registerTerminalRoutes(app: App): void {
  route(app, getTerminal, async ({ session, request, reply }) => {
    checkEnabled(session);
    const page = await loadTerminalPage();
    const token = exposureOf(request.raw)?.pageToken;
    // In the clear browsers say nothing of it to other machines.
    const isForeign = !/^(?:none|same-origin)$/.test(String(request.headers["sec-fetch-site"]));
    // By the HTML standard a page that has both an origin of nobody and this policy is not shown.
    if (token === undefined) reply.header("cross-origin-opener-policy", "same-origin");
    return reply
      .type("text/html; charset=utf-8")
      .header("content-security-policy", page.contentPolicy)
      .header("referrer-policy", "no-referrer")
      .header("cross-origin-resource-policy", "same-origin")
      .header("cache-control", "no-store")
      .send(page.html({ token, isForeign }));
  });

  route(app, openTerminal, ({ session }) => {
    checkEnabled(session);
    throw new AppError("invalid_request", "This path is for WebSocket connections.");
  });
}

function checkEnabled({ terminals }: SessionContext): void {
  if (terminals.isDisabled) throw new AppError("forbidden", "DISABLE_TERMINAL is set in this sandbox.");
}
