// How often a credential may ask and an address be wrong; whose word about an address is taken.
import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestLimits } from "../../src/control-plane/auth/request-limits.ts";
import { readControlPlaneConfig } from "../../src/control-plane/config.ts";
import { TokenBuckets } from "../../src/core/token-buckets.ts";
import { startServer, until } from "./harness.ts";
import { addPerson } from "./people.ts";

test("a bucket lets a burst through and then so many a second", () => {
  let now = 0;
  const buckets = new TokenBuckets({ perSecond: 10, burst: 3 }, () => now);
  assert.deepEqual(
    [1, 2, 3, 4, 5].map(() => buckets.take("a")),
    [0, 0, 0, 100, 100],
  );
  assert.equal(buckets.take("b"), 0);
  now = 50;
  assert.ok([50, 51].includes(buckets.take("a")));
  now = 101;
  assert.equal(buckets.take("a"), 0);
  buckets.giveBack("a");
  assert.equal(buckets.take("a"), 0);
  now = 1_000_000;
  assert.deepEqual(
    [1, 2, 3, 4].map(() => buckets.take("a")),
    [0, 0, 0, 100],
  );
});

test("however many keys there are, a bucket that is empty is not forgotten for full ones", () => {
  let now = 0;
  const buckets = new TokenBuckets({ perSecond: 0.001, burst: 2 }, () => now);
  buckets.take("guilty");
  buckets.take("guilty");
  for (let index = 0; index < 19_999; index++) {
    buckets.take(`k${index}`);
    buckets.giveBack(`k${index}`);
  }
  now = 1;
  buckets.take("one more");
  assert.ok(buckets.take("guilty") > 0);
});

test("a credential that asks too often waits, and no other one does", async () => {
  await using server = await startServer({ settings: { CATNAP_REQUESTS_PER_SECOND: "5" } });
  const mia = await addPerson(server, "mia");
  const answers = await Promise.all(Array.from({ length: 50 }, () => server.call("GET", "/v0/workspaces")));
  const limited = answers.filter(({ status }) => status === 429);
  assert.ok(limited.length >= 30 && limited.length <= 40, String(limited.length));
  assert.deepEqual(limited[0]!.body.error, "rate_limited");
  assert.equal(limited[0]!.body.code, 429);
  assert.match(limited[0]!.headers.get("retry-after") ?? "", /^1$/);
  assert.equal((await server.call("GET", "/v0/workspaces", { key: mia.apiKey })).status, 200);
  const again = await until("the credential may ask again", async () => {
    const answer = await server.call("GET", "/v0/workspaces");
    return answer.status === 200 ? answer : undefined;
  });
  assert.equal(again.status, 200);
});

test("wrong credentials from one address are limited; right ones from there are not", async () => {
  await using server = await startServer({ settings: { CATNAP_REJECTIONS_PER_MINUTE: "5" } });
  const statuses: number[] = [];
  for (let count = 0; count < 8; count++) {
    statuses.push((await server.call("GET", "/v0/workspaces", { key: `ck_${count}` })).status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
  assert.equal((await server.call("GET", "/v0/workspaces")).status, 200);
});

test("addresses of one IPv6 network count as one", () => {
  const limits = new RequestLimits({
    requests: { perSecond: 1, burst: 1 },
    rejections: { perSecond: 0.001, burst: 1 },
  });
  limits.countRejection("2001:db8:0:1::1");
  assert.throws(() => limits.countRejection("2001:db8:0:1:ffff::2"), { code: "rate_limited" });
  limits.countRejection("2001:db8:0:2::1");
  limits.countRejection("192.0.2.1");
  limits.countRejection("::1");
  limits.countRejection("::ffff:192.0.2.2");
  assert.throws(() => limits.countRejection("192.0.2.1"), { code: "rate_limited" });
});

test("X-Forwarded-For counts only when a configured proxy says it", async () => {
  const addressOf = async (settings: Record<string, string>): Promise<string> => {
    await using server = await startServer({ settings });
    const headers = { "x-forwarded-for": "203.0.113.9, 198.51.100.7" };
    await server.call("POST", "/v0/profile/api_keys", { body: {}, headers });
    return (await server.call("GET", "/v0/audit_logs")).body.data[0].address;
  };
  assert.equal(await addressOf({}), "127.0.0.1");
  assert.equal(await addressOf({ CATNAP_TRUSTED_PROXIES: "10.0.0.0/8" }), "127.0.0.1");
  assert.equal(await addressOf({ CATNAP_TRUSTED_PROXIES: "127.0.0.1" }), "198.51.100.7");
  assert.equal(await addressOf({ CATNAP_TRUSTED_PROXIES: "127.0.0.0/8, 198.51.100.0/24" }), "203.0.113.9");
  const read = (CATNAP_TRUSTED_PROXIES: string) =>
    readControlPlaneConfig({ CATNAP_TRUSTED_PROXIES }, { dataDir: "/x", origin: "http://a", pathPrefix: "/run" });
  for (const text of ["*", "all", "10.0.0.0/33", "10.0.0.0/", "proxy.example.com", "::1/129", "1.2.3.4/8/8"]) {
    assert.throws(() => read(text), /CATNAP_TRUSTED_PROXIES/, text);
  }
});
