// The self-check of `up`: what it does over HTTP, what it prints, and that it leaves no sandbox behind.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { standIn, up } from "./up-stand-in.ts";
import { type Answer, json, sandbox, serveWire, type WireServer } from "./wire-server.ts";

/** A platform's surface for the self-check: a sandbox that runs Python, serves a port and falls asleep when it is looked at. */
async function serveChecked(
  answers: { port?: (secret: string) => string; state?: string } = {},
): Promise<WireServer & { deleted: string[] }> {
  let secret = "";
  const deleted: string[] = [];
  const process: Answer = ({ headers, body }, response) => {
    const request = JSON.parse(body.toString()) as { command: string };
    if (headers.accept === "text/event-stream") {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      const lines = [
        { type: "stdout", data: "python 3.11.2 answers 42\n" },
        { type: "result", data: '{"status":"completed","exitCode":0}' },
      ];
      response.end(lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
      return;
    }
    secret = request.command.split(" ").at(-1)!;
    json(200, { name: "p", status: "running" })({} as never, response);
  };
  const routes = new Proxy<Record<string, Answer>>(
    {},
    {
      get(_, key: string) {
        const name = /(self-check-[a-z0-9]{8})/.exec(key)?.[1] ?? "";
        if (key === "POST /v0/sandboxes")
          return (asked: { body: Buffer }, response: never) =>
            json(200, sandbox(JSON.parse(asked.body.toString()).metadata.name))(asked as never, response);
        if (key.startsWith("POST ") && key.endsWith("/process")) return process;
        if (key.startsWith("GET /v0/")) return json(200, sandbox(name, { state: answers.state ?? "STANDBY" }));
        if (key.includes("/port/8321/")) {
          const answer: Answer = (_asked, response) =>
            response
              .writeHead(200, { "server-timing": "wake;dur=0.41, total;dur=1.2" })
              .end((answers.port ?? ((kept) => kept))(secret));
          return answer;
        }
        if (!key.startsWith("DELETE ")) return undefined;
        deleted.push(name);
        return json(200, sandbox(name, { status: "DELETING" }));
      },
    },
  );
  return Object.assign(await serveWire(routes), { deleted });
}

test("the first start checks itself over HTTP and prints what each phase took", async () => {
  await using server = await serveChecked();
  const run = await up(standIn(server.url));
  assert.equal(run.stderr, "");
  const table = [
    /^ {2}create +[\d.]+ ms {2}blaxel\/base-image:latest$/m,
    /^ {2}python +[\d.]+ ms {2}python 3\.11\.2 answers 42$/m,
    /^ {2}server +[\d.]+ ms {2}answers on port 8321$/m,
    /^ {2}sleep +[\d.]+ ms {2}asleep, memory and processes kept$/m,
    /^ {2}wake +[\d.]+ ms {2}its server answers, memory intact; 0\.4 ms of it for waking$/m,
    /^ {2}delete +[\d.]+ ms$/m,
  ];
  for (const line of table) assert.match(run.stdout, line);
  assert.equal(server.deleted.length, 1);
});

test("a self-check that fails is told, its sandbox deleted, and the platform goes on", async () => {
  await using server = await serveChecked({ port: () => "forgotten" });
  const run = await up(standIn(server.url));
  assert.equal(run.exitCode, 0);
  assert.match(
    run.stderr,
    /the self-check failed: The server in it forgot what it had in memory\.[\s\S]*The platform goes on/,
  );
  assert.match(run.stdout, /ready on/);
  assert.equal(server.deleted.length, 1);
});

test("Ctrl-C during the self-check deletes its sandbox and stops", async () => {
  await using server = await serveChecked({ state: "RUNNING" });
  const platform = standIn(server.url, { idleTimeoutMs: 50_000 });
  const run = await up(platform, [], {
    async during({ stdout, signal }) {
      await eventually(() => assert.match(stdout(), /letting it fall asleep/));
      signal("SIGINT");
    },
  });
  assert.deepEqual([run.exitCode, platform.disposed, server.deleted.length], [0, 1, 1]);
  assert.doesNotMatch(run.stdout, /ready on/);
});
