// The terminal's page and what it consists of. Everything comes from here, and the page may load nothing else.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { getTerminal, getTerminalAsset, openTerminal } from "../../contract/sandbox-api/terminal.ts";
import { AppError } from "../../core/errors.ts";
import { type App, route } from "../route.ts";
import type { SessionContext } from "../session-context.ts";

const require = createRequire(import.meta.url);
const own = (name: string) => () => join(import.meta.dirname, "page", name);
const script = "text/javascript; charset=utf-8";
const style = "text/css; charset=utf-8";

type Asset = { type: string; path: () => string };

const assets: ReadonlyMap<string, Asset> = new Map([
  ["xterm.js", { type: script, path: () => require.resolve("@xterm/xterm/lib/xterm.js") }],
  ["xterm.css", { type: style, path: () => require.resolve("@xterm/xterm/css/xterm.css") }],
  ["addon-fit.js", { type: script, path: () => require.resolve("@xterm/addon-fit/lib/addon-fit.js") }],
  ["terminal.js", { type: script, path: own("terminal.js") }],
  ["terminal.css", { type: style, path: own("terminal.css") }],
]);

/** The emulator writes its colours into style elements; scripts come from files alone. */
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join("; ");

const read = new Map<string, Promise<Buffer>>();

/** Read with the first request and kept. */
function load(path: string): Promise<Buffer> {
  let content = read.get(path);
  if (content === undefined) {
    content = readFile(path);
    content.catch(() => read.delete(path));
    read.set(path, content);
  }
  return content;
}

export function registerTerminalRoutes(app: App): void {
  route(app, getTerminal, async ({ session, reply }) => {
    checkEnabled(session);
    return reply
      .type("text/html; charset=utf-8")
      .header("content-security-policy", contentPolicy)
      .header("referrer-policy", "no-referrer")
      .header("cross-origin-opener-policy", "same-origin")
      .send((await load(own("terminal.html")())).toString("utf8"));
  });

  route(app, getTerminalAsset, async ({ params, session, reply }) => {
    checkEnabled(session);
    const asset = assets.get(params.name);
    if (asset === undefined) throw new AppError("not_found", "The terminal has no such part.");
    const content = await load(asset.path());
    return reply.type(asset.type).header("cache-control", "private, max-age=3600").send(content);
  });

  route(app, openTerminal, ({ session }) => {
    checkEnabled(session);
    throw new AppError("invalid_request", "This path is for WebSocket connections.");
  });
}

function checkEnabled({ terminals }: SessionContext): void {
  if (terminals.isDisabled) throw new AppError("forbidden", "DISABLE_TERMINAL is set in this sandbox.");
}
