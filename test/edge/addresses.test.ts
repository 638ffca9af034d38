// Which sandbox an address means, in path form and in host form, and what of the URL the sandbox is told.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { auth, codeOf, startEdge, type TestEdge } from "./harness.ts";

let edge: TestEdge;
before(async () => {
  edge = await startEdge();
});
after(() => edge[Symbol.asyncDispose]());

const long = "x".repeat(8_000);

/** Of a request target below the machine's own name: what the sandbox `box` is asked for. */
const reaching: [target: string, rest: string][] = [
  ["/run/main/sandboxes/box", "/"],
  ["/run/main/sandboxes/box/", "/"],
  ["/run/main/sandboxes/box/health", "/health"],
  ["/run/main/sandboxes/box?a=b", "/?a=b"],
  ["/run/main/sandboxes/box/?a=/run/main/sandboxes/other", "/?a=/run/main/sandboxes/other"],
  ["/run/main/sandboxes/box//double//", "//double//"],
  ["/run/main/sandboxes/box/a%2Fb/%2e%2e/%00", "/a%2Fb/%2e%2e/%00"],
  ["/run/main/sandboxes/box/../off/health", "/../off/health"],
  ["/run/main/sandboxes/box/;x=y", "/;x=y"],
  ["/run/main/sandboxes/box/v0/sandboxes", "/v0/sandboxes"],
  [`/run/main/sandboxes/box/${long}`, `/${long}`],
  ["http://anything/run/main/sandboxes/box/health?q", "/health?q"],
  ["HTTPS://anything:1/run/main/sandboxes/box", "/"],
];

for (const [target, rest] of reaching) {
  test(`${target.slice(0, 80)} reaches the sandbox`, async () => {
    const before = edge.arrivals.length;
    const answer = await edge.ask([`GET ${target} HTTP/1.1`, "host: 127.0.0.1", auth]);
    assert.equal(answer.body, "from box");
    assert.equal(edge.arrivals.length, before + 1);
    assert.equal(edge.arrivals.at(-1)?.url, rest);
    assert.match(answer.headers["server-timing"] ?? "", /^auth;dur=[\d.]+, total;dur=[\d.]+$/);
  });
}

const missing: [target: string, code: string][] = [
  ["/", "ROUTE_NOT_FOUND"],
  ["/run", "ROUTE_NOT_FOUND"],
  ["/run/main", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/", "ROUTE_NOT_FOUND"],
  ["/run//main/sandboxes/box", "ROUTE_NOT_FOUND"],
  ["//run/main/sandboxes/box", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/b%6fx/health", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/box%2fhealth", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/box;x/health", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/box.", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/BOX", "ROUTE_NOT_FOUND"],
  ["/run/main/functions/box", "ROUTE_NOT_FOUND"],
  [`/run/main/sandboxes/${"x".repeat(50)}`, "ROUTE_NOT_FOUND"],
  ["/RUN/main/sandboxes/box", "ROUTE_NOT_FOUND"],
  ["/v0x", "ROUTE_NOT_FOUND"],
  ["/run/main/sandboxes/none", "WORKLOAD_NOT_FOUND"],
  // Another workspace's sandbox and workspace look like none.
  ["/run/other/sandboxes/theirs", "WORKLOAD_NOT_FOUND"],
  ["/run/other/sandboxes/none", "WORKLOAD_NOT_FOUND"],
  ["/run/nowhere/sandboxes/box", "WORKLOAD_NOT_FOUND"],
];

for (const [target, code] of missing) {
  test(`${target.slice(0, 80)} reaches nothing: ${code}`, async () => {
    const before = edge.arrivals.length;
    const answer = await edge.ask([`GET ${target} HTTP/1.1`, "host: 127.0.0.1", auth]);
    assert.equal(answer.status, 404);
    assert.equal(codeOf(answer), code);
    assert.equal(answer.headers["x-blaxel-error-code"], code);
    assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
    assert.equal(edge.arrivals.length, before);
  });
}

test("another workspace's sandbox cannot be told from none", async () => {
  const [theirs, none] = await Promise.all(
    ["other/sandboxes/theirs", "other/sandboxes/missing"].map((path) =>
      edge.ask([`GET /run/${path} HTTP/1.1`, "host: 127.0.0.1", auth]),
    ),
  );
  const shape = ({ body }: { body: string }) => body.replace(/theirs|missing/, "").replace(/"timestamp":"[^"]*"/, "");
  assert.equal(shape(theirs!), shape(none!));
});

/** Of a Host header, what answers at `/v0/x`: a path that would be the control plane's on any other host. */
const hosts: [host: string, outcome: string][] = [
  ["sbx-box-w1.local.sandboxes.test", "from box"],
  ["sbx-box-w1.local.sandboxes.test:4000", "from box"],
  ["SBX-Box-W1.Local.Sandboxes.Test", "from box"],
  ["sbx-box-w1.local.sandboxes.test.", "from box"],
  ["sbx-box-w1.local.sandboxes.test.:4000", "from box"],
  ["sbx-none-w1.local.sandboxes.test", "WORKLOAD_NOT_FOUND"],
  ["sbx-theirs-w2.local.sandboxes.test", "WORKLOAD_NOT_FOUND"],
  ["sbx-box-w9.local.sandboxes.test", "WORKLOAD_NOT_FOUND"],
  ["sbx-box-w2.local.sandboxes.test", "WORKLOAD_NOT_FOUND"],
  ["sbx-off-w1.local.sandboxes.test", "FORBIDDEN"],
  ["sbx-new-w1.local.sandboxes.test", "WORKLOAD_UNAVAILABLE"],
  ["box-w1.local.sandboxes.test", "from the control plane"],
  ["sbx-box-w1.sandboxes.test", "from the control plane"],
  ["sbx-box-w1.local.sandboxes.test.evil", "from the control plane"],
  ["sbx-box-w1.local.evilsandboxes.test", "from the control plane"],
  ["sandboxes.test", "from the control plane"],
  ["", "from the control plane"],
];

for (const [host, outcome] of hosts) {
  test(`at the host "${host}" answers: ${outcome}`, async () => {
    const answer = await edge.ask(["GET /v0/x HTTP/1.1", `host: ${host}`, auth]);
    assert.equal(outcome.startsWith("from") ? answer.body : codeOf(answer), outcome);
    if (outcome === "from box") assert.equal(edge.arrivals.at(-1)?.url, "/v0/x");
    assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
  });
}

test("the authority of a target in absolute form takes the place of the Host header", async () => {
  const target = "http://sbx-box-w1.local.sandboxes.test/v0/x?y";
  const answer = await edge.ask([`GET ${target} HTTP/1.1`, "Host: 127.0.0.1", auth]);
  assert.equal(answer.body, "from box");
  const { url, rawHeaders } = edge.arrivals.at(-1)!;
  assert.equal(url, "/v0/x?y");
  assert.equal(rawHeaders[rawHeaders.indexOf("Host") + 1], "sbx-box-w1.local.sandboxes.test");
});

for (const target of ["http://user:secret@x/run/main/sandboxes/box", "ftp://x/run/main/sandboxes/box", "http:///x"]) {
  test(`the target ${target} is refused`, async () => {
    const answer = await edge.ask([`GET ${target} HTTP/1.1`, "host: x", auth]);
    assert.equal(answer.status, 400);
    assert.match(answer.headers["server-timing"] ?? "", /total;dur=/);
    assert.ok(!answer.body.includes("secret"));
  });
}

test("a disabled sandbox accepts no connection, one in the making none yet", async () => {
  const off = await edge.ask(["GET /run/main/sandboxes/off/health HTTP/1.1", "host: x", auth]);
  assert.deepEqual([off.status, codeOf(off)], [403, "FORBIDDEN"]);
  const made = await edge.ask(["GET /run/main/sandboxes/new/health HTTP/1.1", "host: x", auth]);
  assert.deepEqual([made.status, codeOf(made)], [404, "WORKLOAD_UNAVAILABLE"]);
  assert.ok(made.headers["retry-after"] === undefined || Number(made.headers["retry-after"]) > 0);
});
