// Lists: bare arrays and pages, orders, filters, cursors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, type Server, startServer, untilStatus } from "./harness.ts";

const paged = { headers: { "blaxel-version": "2026-04-28" } };

const namesOf = (items: { metadata: { name: string } }[]): string[] => items.map(({ metadata }) => metadata.name);

async function createMany(server: Server, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `box-${String(index).padStart(3, "0")}`);
  for (const name of names) assert.equal((await server.create({ name })).status, 200);
  return names;
}

/** Follows cursors to the end. */
async function readPages(server: Server, query: string): Promise<{ names: string[]; pages: Answer[] }> {
  const pages: Answer[] = [];
  let cursor = "";
  do {
    const answer = await server.call("GET", `/v0/sandboxes?${query}${cursor}`, paged);
    assert.equal(answer.status, 200, answer.text);
    pages.push(answer);
    cursor = answer.body.meta.nextCursor === undefined ? "" : `&cursor=${answer.body.meta.nextCursor}`;
  } while (cursor !== "");
  return { names: pages.flatMap(({ body }) => namesOf(body.data)), pages };
}

test("pages cover every sandbox once, in each order", async () => {
  await using server = await startServer();
  const names = await createMany(server, 7);
  for (const [sort, expected] of [
    ["createdAt:asc", names],
    ["createdAt:desc", names.toReversed()],
    ["name:asc", names],
    ["name:desc", names.toReversed()],
  ] as const) {
    const { names: found, pages } = await readPages(server, `limit=3&sort=${sort}`);
    // Those of the same millisecond are ordered by their ids.
    if (sort.startsWith("name")) assert.deepEqual(found, expected);
    else assert.deepEqual(found.toSorted(), expected.toSorted());
    assert.deepEqual(
      pages.map(({ body }) => [body.data.length, body.meta.hasMore, body.meta.total]),
      [
        [3, true, 7],
        [3, true, 7],
        [1, false, 7],
      ],
    );
    assert.equal(pages.at(-1)?.body.meta.nextCursor, undefined);
  }
});

test("a page that ends with the list has no cursor", async () => {
  await using server = await startServer();
  await createMany(server, 4);
  const { pages } = await readPages(server, "limit=2");
  assert.equal(pages.length, 2);
});

test("pages have 50 items unless told otherwise, and never more than 200", async () => {
  await using server = await startServer();
  await createMany(server, 205);
  const plain = await server.call("GET", "/v0/sandboxes", paged);
  assert.equal(plain.body.data.length, 50);
  const most = await server.call("GET", "/v0/sandboxes?limit=1000000", paged);
  assert.equal(most.body.data.length, 200);
  assert.equal(most.body.meta.total, 205);
  const bare = await server.call("GET", "/v0/sandboxes");
  assert.equal(bare.body.length, 205);
  assert.equal(new Set(namesOf(bare.body)).size, 205);
  assert.equal((await server.call("GET", "/v0/sandboxes?limit=203")).body.length, 203);
  assert.equal((await server.call("GET", "/v0/sandboxes?limit=3")).body.length, 3);
  assert.match(bare.headers.get("content-type") ?? "", /^application\/json/);
});

test("items lack errors and events", async () => {
  await using server = await startServer();
  await server.create({ name: "one" });
  const bare = await server.call("GET", "/v0/sandboxes");
  const page = await server.call("GET", "/v0/sandboxes", paged);
  assert.deepEqual(page.body.data, bare.body);
  const [item] = bare.body;
  assert.equal(item.errors, undefined);
  assert.equal(item.events, undefined);
  assert.equal(item.status, "DEPLOYED");
  assert.equal(item.state, "RUNNING");
});

test("gone sandboxes are listed only when asked for", async () => {
  await using server = await startServer();
  await createMany(server, 2);
  await server.call("DELETE", "/v0/sandboxes/box-000");
  await untilStatus(server, "box-000", "TERMINATED");
  const list = async (query: string) => namesOf((await server.call("GET", `/v0/sandboxes?${query}`)).body).toSorted();
  assert.deepEqual(await list(""), ["box-001"]);
  assert.deepEqual(await list("showTerminated=false"), ["box-001"]);
  assert.deepEqual(await list("showTerminated=true"), ["box-000", "box-001"]);
  assert.deepEqual(await list("status=terminated"), ["box-000"]);
  assert.deepEqual(await list("status=Deployed,TERMINATED"), ["box-000", "box-001"]);
  assert.deepEqual(await list("status=failed&showTerminated=true"), []);
});

test("external ids are found exactly", async () => {
  await using server = await startServer();
  await server.create({ name: "a", metadata: { externalId: "E-1" } });
  await server.create({ name: "b", metadata: { externalId: "E-2" } });
  assert.deepEqual(namesOf((await server.call("GET", "/v0/sandboxes?externalId=E-2")).body), ["b"]);
  assert.deepEqual((await server.call("GET", "/v0/sandboxes?externalId=E-3")).body, []);
});

test("cursors belong to their list and expire with it", async () => {
  await using server = await startServer();
  await createMany(server, 3);
  const { body } = await server.call("GET", "/v0/sandboxes?limit=1", paged);
  const cursor = body.meta.nextCursor;
  const at = async (query: string) => (await server.call("GET", `/v0/sandboxes?${query}`, paged)).status;
  assert.equal(await at(`limit=1&cursor=${cursor}`), 200);
  assert.equal(await at(`limit=2&cursor=${cursor}`), 200);
  assert.equal(await at(`limit=1&sort=name:asc&cursor=${cursor}`), 400);
  assert.equal(await at(`limit=1&showTerminated=true&cursor=${cursor}`), 400);
  assert.equal(await at(`limit=1&cursor=${cursor}x`), 400);
  assert.equal(await at("limit=1&cursor=abc"), 400);
  const past = Date.now() + 25 * 3_600_000;
  const now = Date.now;
  try {
    Date.now = () => past;
    assert.equal(await at(`limit=1&cursor=${cursor}`), 400);
  } finally {
    Date.now = now;
  }
});

test("queries that cannot be served are refused, not ignored", async () => {
  await using server = await startServer();
  for (const query of [
    "limit=0",
    "limit=-1",
    "limit=x",
    "limit=1.5",
    "sort=size:asc",
    "status=SLEEPING",
    "anchor=start",
    "anchor=end&sort=name:asc",
    "anchor=end&cursor=abc",
    `q=${"x".repeat(201)}`,
  ]) {
    const answer = await server.call("GET", `/v0/sandboxes?${query}`, paged);
    assert.equal(answer.status, 400, query);
    assert.match(answer.body.message, /query parameter/);
  }
  assert.equal((await server.call("GET", "/v0/sandboxes?unknown=1&showTerminated=", paged)).status, 200);
});

test("text is searched for in names, display names, label keys and values, whatever its case", async () => {
  await using server = await startServer();
  await server.create({ name: "alpha-one", metadata: { displayName: "Über Größe" } });
  await server.create({ name: "beta", metadata: { labels: { Team: "Payments", "a%_b": "x" } } });
  await server.create({ name: "gamma" });
  const find = async (text: string) => {
    const answer = await server.call("GET", `/v0/sandboxes?q=${encodeURIComponent(text)}`, paged);
    assert.equal(answer.body.meta.total, answer.body.data.length, text);
    return namesOf(answer.body.data).toSorted();
  };
  const all = ["alpha-one", "beta", "gamma"];
  for (const [text, expected] of [
    ["ALPHA", ["alpha-one"]],
    ["a-o", ["alpha-one"]],
    ["über gr", ["alpha-one"]],
    ["GRÖSSE", []],
    ["größe", ["alpha-one"]],
    ["team", ["beta"]],
    ["payments", ["beta"]],
    ["%_", ["beta"]],
    ["%", all],
    ["  mm  ", ["gamma"]],
    [" m ", all],
    ["", all],
    ["teampayments", []],
    ["team\u001fpay", []],
    ["m\0m", []],
    ["' or '1'='1", []],
  ] as const) {
    assert.deepEqual(await find(text), expected, text);
  }
  const bare = await server.call("GET", "/v0/sandboxes?q=beta");
  assert.deepEqual(namesOf(bare.body), ["beta"]);
});

test("pages of a search follow each other and say how many there are", async () => {
  await using server = await startServer();
  await createMany(server, 9);
  await server.create({ name: "other" });
  const { names, pages } = await readPages(server, "limit=4&sort=name:asc&q=BOX-");
  assert.deepEqual(
    names,
    Array.from({ length: 9 }, (_, index) => `box-00${index}`),
  );
  assert.deepEqual(
    pages.map(({ body }) => [body.data.length, body.meta.total]),
    [
      [4, 9],
      [4, 9],
      [1, 9],
    ],
  );
  const { nextCursor } = pages[0]?.body.meta ?? {};
  assert.equal(
    (await server.call("GET", `/v0/sandboxes?limit=4&sort=name:asc&cursor=${nextCursor}`, paged)).status,
    400,
  );
});

test("a sandbox is found by what it is called now", async () => {
  await using server = await startServer();
  const { body } = await server.create({ name: "renamed", metadata: { displayName: "before", labels: { a: "old" } } });
  body.metadata.displayName = "after";
  body.metadata.labels = { a: "new" };
  assert.equal((await server.call("PUT", "/v0/sandboxes/renamed", { body })).status, 200);
  const count = async (q: string) => (await server.call("GET", `/v0/sandboxes?q=${q}`, paged)).body.meta.total;
  assert.deepEqual([await count("before"), await count("old"), await count("after"), await count("new")], [0, 0, 1, 1]);
});

test("the last page is the end of the list, in the list's order", async () => {
  await using server = await startServer();
  await createMany(server, 5);
  const tail = async (query: string) => (await server.call("GET", `/v0/sandboxes?anchor=end&${query}`, paged)).body;
  const whole = async (sort: string) => namesOf((await server.call("GET", `/v0/sandboxes?sort=${sort}`)).body);
  for (const sort of ["createdAt:asc", "createdAt:desc"]) {
    const { data, meta } = await tail(`limit=2&sort=${sort}`);
    assert.deepEqual(namesOf(data), (await whole(sort)).slice(-2), sort);
    assert.deepEqual(meta, { hasMore: false, total: 5 });
  }
  assert.deepEqual(namesOf((await tail("limit=9")).data), await whole("createdAt:desc"));
  assert.equal((await tail("q=box-003")).data.length, 1);
});

test("one list of several statuses is in one order", async () => {
  await using server = await startServer();
  const names = await createMany(server, 8);
  for (const name of ["box-001", "box-004", "box-007"]) {
    await server.call("DELETE", `/v0/sandboxes/${name}`);
    await untilStatus(server, name, "TERMINATED");
  }
  const { instanceId = "" } = server.host.requests.find(({ sandboxName }) => sandboxName === "box-002") ?? {};
  server.host.instances.delete(instanceId);
  await server.controlPlane.reconcile();
  const { names: found, pages } = await readPages(server, "limit=3&sort=name:asc&showTerminated=true");
  assert.deepEqual(found, names);
  assert.deepEqual(
    pages.map(({ body }) => body.meta.total),
    [8, 8, 8],
  );
  const counted = await server.query<{ status: string; count: number }>(
    "select status, sum(count) as count from sandbox_counts group by status having sum(count) <> 0 order by status",
  );
  assert.deepEqual(
    counted.map(({ status, count }) => [status, count]),
    [
      ["DEPLOYED", 4],
      ["FAILED", 1],
      ["TERMINATED", 3],
    ],
  );
});
