// What every answer of a whole platform carries, whoever gives it, and the two forms of a sandbox's address.
import assert from "node:assert/strict";
import { type IncomingHttpHeaders, type RequestOptions, request } from "node:http";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { type SpawnedPlatform, spawnPlatform } from "../../src/dev/spawn-platform.ts";

type Answer = { status: number; headers: IncomingHttpHeaders; body: string };

const json = { "content-type": "application/json" };
let platform: SpawnedPlatform;
let sandboxHost: string;

before(async () => {
  platform = await spawnPlatform({ CATNAP_SANDBOX_DOMAIN: "sandboxes.test", CATNAP_WARM_INSTANCES: "0" });
  const spec = { runtime: { memory: 256 } };
  const { metadata } = await platform.call("POST", "/v0/sandboxes", { metadata: { name: "box" }, spec });
  sandboxHost = new URL((metadata as { url: string }).url).host;
});
after(() => platform[Symbol.asyncDispose]());

type Ask = { host?: string; key?: string | null; headers?: Record<string, string>; body?: string };

async function ask(method: string, path: string, { host, key, headers, body }: Ask = {}): Promise<Answer> {
  const bearer = key === null ? {} : { authorization: `Bearer ${key ?? platform.apiKey}` };
  const { port } = new URL(platform.url);
  const options: RequestOptions = { port, method, path, agent: false };
  const sent = request({ ...options, headers: { ...bearer, ...(host && { host }), ...headers } });
  const answered = new Promise<Answer>((resolve, reject) => {
    sent.once("error", reject);
    sent.once("upgrade", reject);
    sent.once("response", (response) => {
      text(response).then((body) => resolve({ status: response.statusCode!, headers: response.headers, body }), reject);
    });
  });
  sent.end(body);
  return answered;
}

const at = (rest: string): string => `/run/main/sandboxes/box${rest}`;
const start = JSON.stringify({ command: "true", waitForCompletion: true });

const answers: [method: string, path: string, status: number, phases: string[], ask?: Ask][] = [
  ["GET", "/v0/sandboxes", 200, ["auth"]],
  ["GET", "/v0/sandboxes/box", 200, ["auth"]],
  ["HEAD", "/v0/sandboxes/box", 200, ["auth"]],
  ["GET", "/v0/sandboxes/none", 404, ["auth"]],
  ["GET", "/v0/sandboxes/box", 401, ["auth"], { key: null }],
  ["GET", "/v0/sandboxes/box", 401, ["auth"], { key: "wrong" }],
  ["PATCH", "/v0/sandboxes/box", 405, []],
  ["GET", "/v0/%zz", 400, []],
  ["POST", "/v0/sandboxes", 400, ["auth"], { headers: json, body: "{" }],
  ["POST", "/v0/sandboxes", 415, ["auth"], { headers: { "content-type": "text/plain" }, body: "x" }],
  ["POST", "/v0/sandboxes", 409, ["auth"], { headers: json, body: '{"metadata":{"name":"box"},"spec":{}}' }],
  ["GET", at("/health"), 200, ["auth", "wake"]],
  ["HEAD", at("/health"), 200, ["auth", "wake"]],
  ["OPTIONS", at("/health"), 204, [], { key: null }],
  ["OPTIONS", at("/health"), 204, ["auth", "wake"]],
  ["GET", at("/nothing"), 404, ["auth", "wake"]],
  ["PATCH", at("/health"), 405, ["auth", "wake"]],
  ["GET", at("/process/none"), 404, ["auth", "wake"]],
  ["POST", at("/process"), 200, ["auth", "wake", "guest"], { headers: json, body: start }],
  ["POST", at("/process"), 400, ["auth", "wake"], { headers: json, body: "{" }],
  ["POST", at("/process"), 415, ["auth", "wake"], { headers: { "content-type": "text/plain" }, body: "x" }],
  ["GET", at("/filesystem/etc%2Fhostname"), 200, ["auth", "wake", "guest"]],
  ["GET", at("/filesystem/none"), 404, ["auth", "wake"]],
  ["GET", at("/%zz"), 400, ["auth", "wake"]],
  ["GET", at("/port/1/"), 502, ["auth", "wake", "proxy"]],
  ["GET", at("/port/0/"), 400, ["auth", "wake"]],
  ["GET", at("/health"), 401, [], { key: null }],
  ["GET", at("/health"), 401, [], { key: "wrong" }],
  ["GET", "/run/main/sandboxes/none/health", 404, ["auth"]],
  ["GET", "/nowhere", 404, []],
  ["GET", at("/port/1/"), 502, ["auth", "wake"], { headers: { connection: "upgrade", upgrade: "websocket" } }],
  ["GET", at("/health"), 404, ["auth", "wake"], { headers: { connection: "upgrade", upgrade: "websocket" } }],
  ["GET", at("/port/1/"), 401, [], { key: null, headers: { connection: "upgrade", upgrade: "websocket" } }],
  ["GET", "/v0/sandboxes", 404, [], { headers: { connection: "upgrade", upgrade: "websocket" } }],
];

for (const [method, path, status, phases, given] of answers) {
  const kind = given?.headers?.upgrade === undefined ? "" : " as an upgrade";
  test(`${method} ${path}${kind} answers ${status} and says how long it took`, async () => {
    const answer = await ask(method, path, given);
    assert.equal(answer.status, status, answer.body);
    const timing = String(answer.headers["server-timing"]);
    const measured = [...timing.matchAll(/(\w+);dur=\d+(?:\.\d+)?(?:, |$)/g)].map(([, phase]) => phase!);
    assert.equal(measured.at(-1), "total", timing);
    for (const phase of phases) assert.ok(measured.includes(phase), `${phase} in ${timing}`);
    assert.ok(!answer.body.includes(platform.apiKey));
  });
}

test("a sandbox answers at the host its url names, where every path is its own, and at its path too", async () => {
  assert.match(sandboxHost, /^sbx-box-[a-z0-9]{1,9}\.local\.sandboxes\.test:\d+$/);
  for (const host of [sandboxHost, sandboxHost.toUpperCase(), sandboxHost.replace(/:\d+$/, ".")]) {
    const answer = await ask("GET", "/health", { host });
    assert.equal((JSON.parse(answer.body) as { status: string }).status, "ok");
  }
  assert.equal((await ask("GET", at("/health"))).status, 200);
  const own = await ask("GET", "/v0/sandboxes", { host: sandboxHost });
  assert.equal(own.status, 404);
  assert.deepEqual(
    Object.keys(JSON.parse(own.body) as object),
    ["error"],
    "the sandbox answers, not the control plane",
  );
  assert.equal((await ask("GET", at("/health"), { host: sandboxHost })).status, 404);
  assert.equal((await ask("GET", "/health", { host: sandboxHost.replace("box", "none") })).status, 404);
  assert.equal((await ask("GET", "/health", { host: sandboxHost, key: null })).status, 401);
});
