// The platform's listener and edge in front of a host that tells what reached it; requests are written to the connection byte by byte.
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import type { Directory, PreviewRoute } from "../../src/contract/host.ts";
import { AppError } from "../../src/core/errors.ts";
import { createLogger } from "../../src/core/log.ts";
import { timingOf } from "../../src/core/timing.ts";
import { listenerLimits, openListener } from "../../src/dev/listener.ts";
import type { Tls } from "../../src/dev/tls.ts";
import { createEdge, type EdgeOptions } from "../../src/edge/server.ts";

export const apiKey = "key-of-main";
export const auth = `authorization: Bearer ${apiKey}`;

/** What the host was handed. */
export type Arrival = { sandbox: string; url: string; method: string; rawHeaders: string[]; body: string };
export type Answer = { status: number; headers: Record<string, string>; body: string };

const routes: Record<string, { instanceId: string; status: string; enabled: boolean }> = {
  "main/box": { instanceId: "box", status: "DEPLOYED", enabled: true },
  "main/off": { instanceId: "off", status: "DEPLOYED", enabled: false },
  "main/new": { instanceId: "new", status: "DEPLOYING", enabled: true },
  "other/theirs": { instanceId: "theirs", status: "DEPLOYED", enabled: true },
};

const directory: Directory = {
  authorize: (credential, wanted) => {
    if (credential === "breaks") throw new Error("the store is on fire, and its secret is hunter2");
    const workspace = { [apiKey]: "main", "key-of-other": "other" }[credential];
    if (workspace === undefined) throw new AppError("unauthenticated", "unknown");
    if (workspace !== wanted) throw new AppError("forbidden", "another workspace");
    return { id: "tester", kind: "service_account", role: "admin", workspace, scopes: ["admin"] };
  },
  findRoute: (workspace, name) => routes[`${workspace}/${name}`],
  findWorkspaceById: (id) => ({ w1: "main", w2: "other" })[id],
  findPreview: (label) => Promise.resolve(previews.get(label)),
  verifyPreviewToken: (previewId, token) => Promise.resolve(tokens.has(`${previewId} ${token}`)),
  isPlatformCredential: (text) => text.startsWith("key-of-"),
};

/** By their label; a test changes them as the control plane would. */
export const previews = new Map<string, PreviewRoute>();
/** `{previewId} {token}` of those that are good. */
export const tokens = new Set<string>();

export type TestEdge = AsyncDisposable & {
  port: number;
  arrivals: Arrival[];
  /** Writes the bytes and resolves with everything that comes until the connection ends or `until` is in it. */
  raw(bytes: string, until?: RegExp): Promise<string>;
  /** One request on a connection of its own. */
  ask(head: readonly string[], body?: string): Promise<Answer>;
};

export type TestEdgeOptions = Pick<Partial<EdgeOptions>, "isSecure" | "recheckIntervalMs"> & {
  tls?: Tls;
  proxies?: readonly string[];
  /** Instead of an answer that names the instance. */
  answer?: (response: ServerResponse) => void;
  /** Instead of ending the tunnel at once. */
  tunnel?: (socket: Duplex) => void;
};

export async function startEdge(
  limits: Partial<typeof listenerLimits> = {},
  { answer, tunnel, tls, proxies, ...options }: TestEdgeOptions = {},
): Promise<TestEdge> {
  const listener = await openListener("127.0.0.1:0", { ...listenerLimits, ...limits }, { tls, proxies });
  const arrivals: Arrival[] = [];
  const arrived = async (sandbox: string, request: IncomingMessage): Promise<Arrival> => {
    const { url = "", method = "", rawHeaders } = request;
    const arrival = { sandbox, url, method, rawHeaders: [...rawHeaders], body: "" };
    arrivals.push(arrival);
    for await (const piece of request) arrival.body += String(piece);
    return arrival;
  };
  const edge = createEdge({
    directory,
    host: {
      handle: (instanceId, request, response) => {
        arrived(instanceId, request).then(
          () => {
            response.setHeader("server-timing", timingOf(request).header());
            if (answer === undefined) response.end(`from ${instanceId}`);
            else answer(response);
          },
          () => response.destroy(),
        );
      },
      upgrade: (instanceId, request, socket) => {
        void arrived(instanceId, request);
        if (tunnel !== undefined) return tunnel(socket);
        socket.end(`HTTP/1.1 101 Switching Protocols\r\nserver-timing: ${timingOf(request).header()}\r\n\r\n`);
      },
    },
    ...options,
    pathPrefix: "/run",
    sandboxDomain: "sandboxes.test",
    log: createLogger("silent"),
  });
  listener.serve({
    controlPlane: (request, response) =>
      void response.setHeader("server-timing", timingOf(request).header()).end("from the control plane"),
    edge,
  });
  const port = Number(new URL(listener.origin).port);
  const raw = (bytes: string, until?: RegExp): Promise<string> => converse(port, bytes, until);
  return {
    port,
    arrivals,
    raw,
    async ask(head, body = "") {
      const [line, ...headers] = head;
      const lines = [line, ...headers, "connection: close"].map((each) => `${each}\r\n`).join("");
      return parseAnswer(await raw(`${lines}\r\n${body}`));
    },
    [Symbol.asyncDispose]: () => listener[Symbol.asyncDispose](),
  };
}

async function converse(port: number, bytes: string, until: RegExp | undefined): Promise<string> {
  const socket = connect(port, "127.0.0.1").setTimeout(60_000, () => socket.destroy(new Error("no end of the answer")));
  socket.write(bytes, "latin1");
  let received = "";
  const enough = new Promise<void>((resolve) => {
    socket.on("data", (piece) => {
      received += piece.toString("latin1");
      if (until?.test(received)) resolve();
    });
  });
  // A reset after the answer is an end, too.
  await Promise.race([enough, once(socket, "close").catch(() => undefined)]);
  socket.destroy();
  return received;
}

export function parseAnswer(text: string): Answer {
  const end = text.indexOf("\r\n\r\n");
  const [line = "", ...headers] = text.slice(0, end).split("\r\n");
  return {
    status: Number(line.split(" ")[1]),
    headers: Object.fromEntries(
      headers.map((header) => {
        const colon = header.indexOf(":");
        return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()];
      }),
    ),
    body: text.slice(end + 4),
  };
}

export function codeOf({ body }: Answer): string | undefined {
  return (JSON.parse(body) as { error?: { code?: string } }).error?.code;
}
