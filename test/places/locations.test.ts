// Locations, configuration and public addresses: the one region, and what it cannot do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "../control-plane/harness.ts";

test("the one region is the location and the only entry of the configuration", async () => {
  const settings = { CATNAP_REGION: "home-1", CATNAP_REGION_COUNTRY: "DE", CATNAP_REGION_CONTINENT: "eu" };
  await using server = await startServer({ settings });
  assert.deepEqual((await server.call("GET", "/v0/locations")).body, [
    { location: "home-1", region: "home-1", country: "de", continent: "eu", status: "available", flavors: [] },
  ]);
  const { body } = await server.call("GET", "/v0/configuration");
  const [region, ...more] = body.regions;
  assert.deepEqual(more, []);
  assert.deepEqual([region.name, region.country, region.continent], ["home-1", "de", "eu"]);
  for (const ability of ["drivesAvailable", "egressAvailable", "proxyAvailable", "mk31Available"])
    assert.equal(region[ability], false, ability);
  assert.deepEqual(body.countries, [{ name: "de", displayName: "de" }]);
  assert.equal((await server.create({ name: "a", spec: { region: region.name } })).status, 200);
});

test("where the operator has said nothing, nothing is made up", async () => {
  await using server = await startServer();
  const { body } = await server.call("GET", "/v0/configuration");
  assert.deepEqual([body.countries, body.continents, "country" in body.regions[0]], [[], [], false]);
  const ips = await server.call("GET", "/v0/publicIps");
  assert.deepEqual([ips.body.local.ipv4Cidrs, ips.body.local.ipv6Cidrs], [[], []]);
});

test("public addresses are those the operator states, by region", async () => {
  await using server = await startServer({ settings: { CATNAP_PUBLIC_IPS: "203.0.113.7, 2001:db8::/48" } });
  const { body } = await server.call("GET", "/v0/publicIps?region=local");
  assert.deepEqual([body.local.ipv4Cidrs, body.local.ipv6Cidrs], [["203.0.113.7/32"], ["2001:db8::/48"]]);
  assert.deepEqual((await server.call("GET", "/v0/publicIps?region=elsewhere")).body, {});
});

test("settings that are wrong are refused at the start", async () => {
  for (const [name, value] of [
    ["CATNAP_PUBLIC_IPS", "203.0.113.7/33"],
    ["CATNAP_PUBLIC_IPS", "example.com"],
    ["CATNAP_PUBLIC_IPS", "1.2.3.4/8/8"],
    ["CATNAP_REGION_COUNTRY", "germany"],
    ["CATNAP_REGION_CONTINENT", "xx"],
  ] as const) {
    await assert.rejects(startServer({ settings: { [name]: value } }), new RegExp(name), `${name}=${value}`);
  }
});

test("each needs a credential", async () => {
  await using server = await startServer();
  for (const path of ["/v0/locations", "/v0/configuration", "/v0/publicIps"])
    assert.equal((await server.call("GET", path, { key: null })).status, 401, path);
});
