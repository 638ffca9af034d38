// The mock driver: what every driver promises, and the faults it can be told to have.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../eventually.ts";
import { describeDriver } from "./conformance.ts";
import { shell, TestHost } from "./test-host.ts";

describeDriver("mock");

describe("scripted faults of the mock driver", { timeout: 60_000 }, () => {
  it("fails the starts it was told to and no others", async () => {
    await using host = await TestHost.open({ kind: "mock", faults: { failedStarts: [2] } });
    await host.create();
    await assert.rejects(host.create(), { code: "internal" });
    await host.create();
    assert.equal((await host.driver.listFound()).length, 2);
  });

  it("delays a start, which can be given up meanwhile", async () => {
    await using host = await TestHost.open({ kind: "mock", faults: { startDelayMs: 60_000 } });
    await assert.rejects(host.driver.create(host.spec(), AbortSignal.timeout(10)), { code: "unavailable" });
    assert.deepEqual(await host.driver.listFound(), []);
  });

  it("lets instances die", async () => {
    await using host = await TestHost.open({ kind: "mock", faults: { dieAfterMs: 50 } });
    const { id } = await host.create();
    await eventually(async () => assert.equal((await host.driver.inspect(id)).status, "dead"));
  });

  it("fails a freeze, after which the instance still runs", async () => {
    await using host = await TestHost.open({ kind: "mock", faults: { failedFreezes: [1] } });
    const instance = await host.create();
    await assert.rejects(host.driver.freeze(instance.id), { code: "internal" });
    assert.equal(await shell(instance, "echo awake"), "awake");
    await host.driver.freeze(instance.id);
    assert.equal((await host.driver.inspect(instance.id)).status, "frozen");
  });
});
