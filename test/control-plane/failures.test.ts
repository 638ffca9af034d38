// What went wrong with the machine under a sandbox: kept with it in order and within bounds, whatever becomes of its instance.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { InfrastructureError } from "../../src/contract/host.ts";
import { failuresMax, forgiveFailures, mergeFailures } from "../../src/control-plane/sandboxes/failures.ts";
import { startServer } from "./harness.ts";

function failure(second: number, code = "OUT_OF_MEMORY"): InfrastructureError {
  const time = new Date(Date.UTC(2026, 0, 1) + second * 1_000).toISOString();
  return { code, fatal: false, instance: "i", message: "out of memory", time };
}

test("failures that a host reports stay when the instance is replaced, deleted, or the platform starts again", async () => {
  await using server = await startServer();
  const { body } = await server.create({ name: "shaky" });
  const reported = [failure(1), failure(2, "INSTANCE_LOST")];
  server.host.errors = reported;
  const errorsOf = async (from = server): Promise<unknown> =>
    (await from.call("GET", "/v0/sandboxes/shaky")).body.errors;
  assert.deepEqual(await errorsOf(), reported);
  await server.controlPlane.reconcile();
  assert.deepEqual(await errorsOf(), reported, "kept and reported are one");
  const runtime = { ...body.spec.runtime, memory: 256 };
  server.host.onCreate = () => {
    server.host.errors = reported;
  };
  const updated = await server.call("PUT", "/v0/sandboxes/shaky", {
    body: { ...body, spec: { ...body.spec, runtime } },
  });
  assert.equal(updated.status, 200);
  server.host.errors = [];
  assert.deepEqual(await errorsOf(), reported);
  const { dataDir, apiKey, host } = server;
  await server.controlPlane[Symbol.asyncDispose]();
  await using again = await startServer({ dataDir, apiKey, host });
  assert.deepEqual(await errorsOf(again), reported);
  host.errors = [failure(3)];
  const deleted = await again.call("DELETE", "/v0/sandboxes/shaky");
  assert.deepEqual(deleted.body.errors, [...reported, failure(3)], "also what nobody had asked for yet");
});

test("the list is bounded, in order and without repetitions, whatever is reported", () => {
  const lists = fc.array(
    fc.array(
      fc.nat(200).map((second) => failure(second)),
      { maxLength: 80 },
    ),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(lists, (reports) => {
      let kept: readonly InfrastructureError[] = [];
      for (const report of reports) {
        kept = mergeFailures(kept, report);
        assert.equal(mergeFailures(kept, report), kept, "the same report adds nothing");
      }
      const times = kept.map(({ time }) => time);
      assert.deepEqual(times, times.toSorted());
      assert.equal(new Set(times).size, times.length);
      assert.ok(kept.length <= failuresMax);
    }),
  );
});

test("nothing is fatal once the sandbox is what it was", () => {
  const fatal = { ...failure(1), fatal: true };
  assert.deepEqual(forgiveFailures([failure(0), fatal]), [failure(0), failure(1)]);
});
