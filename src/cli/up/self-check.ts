// Proves to the person who has just started the platform that it works: one sandbox made, used, put to sleep, woken and deleted over HTTP.
import { setTimeout as delay } from "node:timers/promises";
import { randomToken } from "../../core/ids.ts";
import type { Connection } from "../connection.ts";
import { CliFailure } from "../failure.ts";
import type { HttpClient } from "../http/http-client.ts";
import { exitCodeOf, runProcess } from "../process/run-process.ts";

export type CheckPhase = { name: string; durationMs: number; detail: string };

export type SelfCheckOptions = {
  connection: Connection;
  idleTimeoutMs: number;
  signal: AbortSignal;
  /** Told before each phase, which may take a while. */
  onPhase(description: string): void;
};

/** Longer idle times are not waited for. */
export const sleepWaitMaxMs = 60_000;
const sleepMarginMs = 15_000;
const listenWaitMs = 20_000;
const pollMs = 50;
const port = 8321;

/** Keeps a number in memory only, and answers with it: it comes back after the sleep if memory and process were kept. */
const server = `
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.HTTPServer(("0.0.0.0", ${port}), Answer).serve_forever()
`;

/** Rejects at the first phase that does not do what it should; the sandbox is deleted in any case. */
export async function selfCheck(options: SelfCheckOptions): Promise<CheckPhase[]> {
  const { connection, signal, onPhase } = options;
  const phases: CheckPhase[] = [];
  const measure: Measure = async (name, description, work) => {
    onPhase(description);
    const startedAtMs = performance.now();
    const detail = await work();
    phases.push({ name, durationMs: performance.now() - startedAtMs, detail });
  };
  const sandboxName = `self-check-${randomToken(8)}`;
  signal.throwIfAborted();
  await useSandbox(options, sandboxName, measure).catch(async (error: unknown) => {
    await connection.platform.deleteSandbox(sandboxName).catch(() => undefined);
    throw error;
  });
  await measure("delete", "deleting it", async () => {
    await connection.platform.deleteSandbox(sandboxName);
    return "";
  });
  return phases;
}

type Measure = (name: string, description: string, work: () => Promise<string>) => Promise<void>;

async function useSandbox(options: SelfCheckOptions, sandboxName: string, measure: Measure): Promise<void> {
  const { connection, signal, idleTimeoutMs } = options;
  const secret = randomToken(16);
  let client: HttpClient | undefined;
  await measure("create", "creating a sandbox", async () => {
    const sandbox = await connection.platform.createSandbox({ metadata: { name: sandboxName }, spec: {} }, signal);
    client = connection.sandbox(sandbox);
    return sandbox.spec.runtime?.image ?? "";
  });
  const sandbox = client!;
  await measure("python", "running a Python program in it", () => runPython(sandbox, signal));
  await measure("server", "starting a server in it", () => startServer(sandbox, secret, signal));
  if (idleTimeoutMs > sleepWaitMaxMs) return;
  const seconds = Math.ceil(idleTimeoutMs / 1_000);
  const sleeping = `letting it fall asleep, which takes ${seconds} s without requests`;
  await measure("sleep", sleeping, () => waitAsleep(options, sandboxName));
  await measure("wake", "waking it with a request", () => readServer(sandbox, secret, signal));
}

async function runPython(client: HttpClient, signal: AbortSignal): Promise<string> {
  let output = "";
  const write = async (_: string, chunk: Buffer): Promise<void> => {
    output = (output + chunk.toString("utf8")).slice(-1_000);
  };
  const program = "import platform; print('python', platform.python_version(), 'answers', 6 * 7)";
  const ended = await runProcess(client, { argv: ["python3", "-c", program] }, { write, stop: signal });
  const said = output.trim();
  if (exitCodeOf(ended) === 0 && said.endsWith("answers 42")) return said;
  throw new CliFailure("failure", `The Python program ended with exit code ${ended.exitCode}: ${said}`);
}

async function startServer(client: HttpClient, secret: string, signal: AbortSignal): Promise<string> {
  const body = Buffer.from(JSON.stringify({ command: `exec python3 -c '${server}' ${secret}` }));
  await client.json({
    method: "POST",
    path: "/process",
    headers: { "content-type": "application/json" },
    body: () => body,
    signal,
  });
  const deadlineMs = Date.now() + listenWaitMs;
  for (;;) {
    try {
      await readServer(client, secret, signal);
      return `answers on port ${port}`;
    } catch (error) {
      const mayBeStarting = error instanceof CliFailure && error.status === 502;
      if (!mayBeStarting || Date.now() > deadlineMs) throw error;
    }
    await delay(pollMs, undefined, { signal });
  }
}

/** Asks the control plane, because a request to the sandbox itself would keep it awake. */
async function waitAsleep({ connection, idleTimeoutMs, signal }: SelfCheckOptions, name: string): Promise<string> {
  const deadlineMs = Date.now() + idleTimeoutMs + sleepMarginMs;
  for (;;) {
    const { state } = await connection.platform.getSandbox(name, signal);
    if (state === "STANDBY") return "asleep, memory and processes kept";
    if (Date.now() > deadlineMs)
      throw new CliFailure("failure", `It did not fall asleep in time; its state is ${state}.`);
    await delay(pollMs, undefined, { signal });
  }
}

async function readServer(client: HttpClient, secret: string, signal: AbortSignal): Promise<string> {
  const response = await client.open({ method: "GET", path: `/port/${port}/`, signal });
  let said = "";
  for await (const chunk of response as AsyncIterable<Buffer>) said = (said + chunk.toString("utf8")).slice(0, 1_000);
  if (said !== secret) throw new CliFailure("failure", "The server in it forgot what it had in memory.");
  const wakeMs = /(?:^|,)\s*wake;dur=([\d.]+)/.exec(String(response.headers["server-timing"] ?? ""))?.[1];
  const share = wakeMs === undefined ? "" : `; ${Number(wakeMs).toFixed(1)} ms of it for waking`;
  return `its server answers, memory intact${share}`;
}
