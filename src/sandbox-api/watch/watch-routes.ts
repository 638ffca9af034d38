// Watching over HTTP: changes as lines of JSON, a line to keep the connection open while nothing happens.
import { posix } from "node:path";
import { Readable } from "node:stream";
import { watchPath } from "../../contract/sandbox-api/watch.ts";
import { AppError } from "../../core/errors.ts";
import { countActivity } from "../activity.ts";
import { closeSignal } from "../client-gone.ts";
import type { Change } from "../machine.ts";
import { type App, route } from "../route.ts";
import { pathFromUrl } from "../sandbox-path.ts";

const prefix = "/watch/filesystem";
const keepaliveMs = 30_000;
const keepaliveLine = "[keepalive]\n";
const type = "text/plain; charset=utf-8";

export function registerWatchRoutes(app: App): void {
  route(
    app,
    watchPath,
    async ({ request, reply, query, session, timing }) => {
      const path = pathFromUrl(request.raw.url!, prefix, session.machine);
      const recursive = path.endsWith("/**");
      const directory = recursive ? path.slice(0, -3) || "/" : path;
      if (request.method === "HEAD") return reply.type(type).send();
      const gone = closeSignal(reply.raw, session);
      const { trees } = session.machine.guest;
      const changes = await timing
        .measure("guest", () => trees.watch(directory, { recursive, signal: gone }))
        .catch((error: unknown) => {
          if (!(error instanceof AppError) || error.code !== "not_found") throw error;
          throw new AppError("invalid_request", `There is nothing to watch at '${directory}'.`, { cause: error });
        });
      countActivity(request.raw, "reports");
      const ignored = (query.ignore ?? "").split(",").filter((text) => text !== "");
      const body = async function* (): AsyncGenerator<string> {
        // Whoever watches has to learn that it has begun before anything changes.
        reply.raw.flushHeaders();
        yield* withKeepalive(linesOf(changes, directory, ignored), () => session.machine.touch());
      };
      return reply
        .type(type)
        .header("x-accel-buffering", "no")
        .send(Readable.from(body(), { objectMode: false, highWaterMark: 64 * 1024 }));
    },
    { paths: [prefix] },
  );
}

async function* linesOf(
  changes: AsyncIterable<Change[]>,
  directory: string,
  ignored: readonly string[],
): AsyncGenerator<string> {
  for await (const batch of changes) {
    const lines = batch
      .map((change) => ({ change, whole: posix.join(directory, change.path) }))
      .filter(({ whole }) => !ignored.some((text) => whole.includes(text)))
      .map(({ change, whole }) => describe(change, whole));
    if (lines.length > 0) yield lines.join("");
  }
}

function describe({ kind }: Change, whole: string): string {
  const error = kind === "overflow" ? "changes at or below this path may be missing" : null;
  return `${JSON.stringify({ op: kind.toUpperCase(), name: posix.basename(whole), path: posix.dirname(whole), error })}\n`;
}

async function* withKeepalive(lines: AsyncGenerator<string>, onLines: () => void): AsyncGenerator<string> {
  let next = lines.next();
  try {
    for (;;) {
      const quiet = Promise.withResolvers<undefined>();
      const timer = setTimeout(() => quiet.resolve(undefined), keepaliveMs);
      const result = await Promise.race([next, quiet.promise]);
      clearTimeout(timer);
      if (result === undefined) yield keepaliveLine;
      else if (result.done) return;
      else {
        next = lines.next();
        onLines();
        yield result.value;
      }
    }
  } finally {
    // The change that was being waited for has nobody to go to.
    next.catch(() => undefined);
    void lines.return(undefined).catch(() => undefined);
  }
}
