// The official client, unchanged, against the control plane: creating, finding, updating and deleting sandboxes as its callers do.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { type Server, startServer } from "./harness.ts";

type Client = typeof import("@blaxel/core");

let server: Server;
let client: Client;

/** What the client throws is the body of the answer, or an error that carries it. */
async function failureOf(work: Promise<unknown>): Promise<Record<string, unknown>> {
  const thrown = await work.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error,
  );
  return thrown as Record<string, unknown>;
}

async function readWhole(sandboxName: string): Promise<import("@blaxel/core").Sandbox> {
  return (await client.getSandbox({ path: { sandboxName }, throwOnError: true })).data;
}

describe("the official client", () => {
  before(async () => {
    server = await startServer();
    // The client reads its settings when it is loaded.
    Object.assign(process.env, {
      BL_API_URL: `${server.url}/v0`,
      BL_RUN_URL: `${server.url}/run`,
      BL_API_KEY: server.apiKey,
      BL_WORKSPACE: "main",
      BL_REGION: "local",
      BL_DISABLE_H2: "1",
      DO_NOT_TRACK: "1",
    });
    client = await import("@blaxel/core");
  });
  after(() => server[Symbol.asyncDispose]());
  beforeEach(() => {
    server.host.onCreate = () => undefined;
  });

  test("a sandbox without a name gets one, and the client's defaults are taken", async () => {
    const sandbox = await client.SandboxInstance.create();
    assert.match(sandbox.metadata.name ?? "", /^[a-z0-9-]{1,49}$/);
    assert.equal(sandbox.status, "DEPLOYED");
    assert.equal(sandbox.spec.runtime?.image, "blaxel/base-image:latest");
    assert.equal(sandbox.spec.runtime?.memory, 4096);
    assert.equal(sandbox.metadata.url, `${server.url}/run/main/sandboxes/${sandbox.metadata.name}`);
    assert.deepEqual((await readWhole(sandbox.metadata.name ?? "")).errors, []);
  });

  test("an image that does not exist fails the creation, and leaves nothing", async () => {
    const failure = await failureOf(client.SandboxInstance.create({ name: "bad-image", image: "nowhere/none" }));
    assert.equal(failure.code, "INVALID_IMAGE");
    const missing = await failureOf(client.SandboxInstance.get("bad-image"));
    assert.equal(missing.code, 404);
  });

  test("one that exists is returned by createIfNotExists, and by its external id", async () => {
    const first = await client.SandboxInstance.createIfNotExists({ name: "known", externalId: "ext-Known-1" });
    const same = await client.SandboxInstance.createIfNotExists({ name: "known" });
    assert.equal(same.metadata.createdAt, first.metadata.createdAt);
    const found = await client.SandboxInstance.getByExternalId("ext-Known-1");
    assert.equal(found.metadata.name, "known");
    assert.equal((await failureOf(client.SandboxInstance.getByExternalId("ext-none"))).code, 404);
    const failure = await failureOf(client.SandboxInstance.create({ name: "known" }));
    assert.equal(failure.code, "SANDBOX_ALREADY_EXISTS");
    for (const externalId of ["with space", "a".repeat(65), "a_b"]) {
      await failureOf(client.SandboxInstance.create({ name: "odd", externalId }));
    }
  });

  test("createIfNotExists waits for a creation under way, and replaces a sandbox that was deleted or failed", async () => {
    const release = Promise.withResolvers<void>();
    server.host.onCreate = () => release.promise;
    const creating = client.SandboxInstance.create({ name: "slow" });
    const waiting = client.SandboxInstance.createIfNotExists({ name: "slow" });
    release.resolve();
    assert.equal((await waiting).metadata.createdAt, (await creating).metadata.createdAt);
    await client.SandboxInstance.delete("slow");
    const again = await client.SandboxInstance.createIfNotExists({ name: "slow" });
    assert.equal(again.status, "DEPLOYED");
    const route = await server.controlPlane.directory.findRoute("main", "slow");
    server.host.instances.delete(route?.instanceId ?? "");
    await server.controlPlane.reconcile();
    assert.equal((await client.SandboxInstance.get("slow")).status, "FAILED");
    assert.equal((await client.SandboxInstance.createIfNotExists({ name: "slow" })).status, "DEPLOYED");
  });

  test("metadata, lifecycle, network and ttl are updated by what the client sends back whole", async () => {
    const envs = [{ name: "TOKEN", value: "real", secret: true }];
    await client.SandboxInstance.create({
      metadata: { name: "echoed", externalId: "ext-echoed", labels: { a: "1" } },
      spec: { runtime: { envs } },
    });
    const requests = server.host.requests.length;
    const labelled = await client.SandboxInstance.updateMetadata("echoed", { labels: { b: "2" }, displayName: "Echo" });
    assert.deepEqual(labelled.metadata.labels, { b: "2" });
    assert.equal(labelled.metadata.displayName, "Echo");
    assert.equal(labelled.metadata.externalId, "ext-echoed");
    const kept = await client.SandboxInstance.updateLifecycle("echoed", { terminatedRetention: "1h" });
    assert.deepEqual(kept.spec.lifecycle, { terminatedRetention: "1h" });
    const cleared = await client.SandboxInstance.updateLifecycle("echoed", null);
    assert.equal(cleared.spec.lifecycle, undefined);
    const networked = await client.SandboxInstance.updateNetwork("echoed", {
      network: { firewall: { rulesets: ["default"] } },
    });
    assert.deepEqual(networked.spec.network, { firewall: { rulesets: ["default"] } });
    const bare = await client.SandboxInstance.updateNetwork("echoed", {});
    assert.equal(bare.spec.network, undefined);
    assert.equal((await client.SandboxInstance.updateTtl("echoed", "")).spec.runtime?.ttl, undefined);
    assert.equal((await failureOf(client.SandboxInstance.updateTtl("echoed", "soon"))).code, 400);
    const after = await client.SandboxInstance.get("echoed");
    assert.equal((await readWhole("echoed")).events?.length, 2, "created, and no more");
    assert.equal(after.status, "DEPLOYED");
    assert.deepEqual(after.spec.runtime?.envs, [{ name: "TOKEN", value: "********", secret: true }]);
    assert.equal(server.host.requests.length, requests, "the instance was never replaced");
  });

  test("another environment rebuilds it, a mask sent back keeps its value", async () => {
    const envs = [{ name: "TOKEN", value: "real", secret: true }];
    await client.SandboxInstance.create({ metadata: { name: "rebuilt" }, spec: { runtime: { envs } } });
    const sandbox = await readWhole("rebuilt");
    const changed = [...(sandbox.spec.runtime?.envs ?? []), { name: "MODE", value: "new" }];
    const body = { ...sandbox, spec: { ...sandbox.spec, runtime: { ...sandbox.spec.runtime, envs: changed } } };
    const { data } = await client.updateSandbox({ path: { sandboxName: "rebuilt" }, body, throwOnError: true });
    assert.equal(data.status, "DEPLOYED");
    assert.deepEqual(server.host.requests.at(-1)?.environment, { TOKEN: "real", MODE: "new" });
  });

  test("deleting returns the sandbox; afterwards it is TERMINATED or gone", async () => {
    await client.SandboxInstance.create({ name: "leaving" });
    const deleted = await client.SandboxInstance.delete("leaving");
    assert.equal(deleted.metadata.name, "leaving");
    assert.equal((await failureOf(client.SandboxInstance.delete("never-there"))).code, 404);
  });
});
