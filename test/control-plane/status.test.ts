// The table of statuses and the settings, as data.
import assert from "node:assert/strict";
import { test } from "node:test";
import { allows, type SandboxAction, sandboxStatuses, statusesThatAllow } from "../../src/contract/sandbox-status.ts";
import { readControlPlaneConfig } from "../../src/control-plane/config.ts";

test("deleting is possible in every status but the last", () => {
  for (const status of sandboxStatuses) assert.equal(allows(status, "delete"), status !== "TERMINATED", status);
});

test("only a deployed sandbox takes connections, and whatever takes connections has its name to itself", () => {
  assert.deepEqual(statusesThatAllow("connect"), ["DEPLOYED"]);
  assert.deepEqual(
    statusesThatAllow("update"),
    ["DEPLOYED"],
    "what is updated may have to be rebuilt beside what serves",
  );
  for (const action of ["connect", "reuse", "update"] satisfies SandboxAction[]) {
    for (const status of statusesThatAllow(action)) assert.ok(allows(status, "hold_name"), status);
  }
});

test("names are free while a sandbox is failed, being deleted or gone", () => {
  const free = sandboxStatuses.filter((status) => !allows(status, "hold_name"));
  assert.deepEqual(free.toSorted(), ["DELETING", "FAILED", "TERMINATED"]);
});

const placement = { dataDir: "/data", origin: "http://127.0.0.1:4000", pathPrefix: "/run" };

test("settings have defaults", () => {
  const config = readControlPlaneConfig({}, placement);
  assert.equal(config.region, "local");
  assert.equal(config.memoryDefaultMb, 4096);
  assert.equal(config.databasePath, "/data/control-plane/catnap.db");
  assert.deepEqual(config.address, {
    inferenceUrl: "http://127.0.0.1:4000/run",
    sandboxDomain: undefined,
    scheme: "http",
    port: 4000,
  });
});

test("settings are checked, and the message names the variable", () => {
  for (const [name, value] of [
    ["CATNAP_REGION", "EU West"],
    ["CATNAP_MEMORY_MAX_MB", "127"],
    ["CATNAP_MEMORY_MAX_MB", "lots"],
    ["CATNAP_SANDBOXES_MAX", "0"],
    ["CATNAP_CREATE_TIMEOUT", "0s"],
    ["CATNAP_RETENTION_MAX", "soon"],
    ["CATNAP_SANDBOX_DOMAIN", "sbx.example:80"],
  ] as const) {
    assert.throws(() => readControlPlaneConfig({ [name]: value }, placement), new RegExp(`${name} must be`));
  }
});

test("an address over TLS on its usual port has no port", () => {
  const { address } = readControlPlaneConfig(
    { CATNAP_SANDBOX_DOMAIN: "sbx.example" },
    { ...placement, origin: "https://cats.example" },
  );
  assert.deepEqual(address, {
    inferenceUrl: "https://cats.example/run",
    sandboxDomain: "sbx.example",
    scheme: "https",
    port: undefined,
  });
});
