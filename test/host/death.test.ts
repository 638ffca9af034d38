// What happens when instances die, never start, or do not go away: the next request meets a fresh one, the cause is told, nothing is left.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { HostHarness } from "./harness.ts";

type Listed = { name: string; status: string; exitCode?: number };

async function processes(harness: HostHarness, name: string): Promise<Listed[]> {
  return (await harness.call(name, "GET", "/process")) as unknown as Listed[];
}

const codes = (harness: HostHarness, name: string): string[] => harness.status(name).errors.map(({ code }) => code);
const dead =
  (harness: HostHarness, name: string, times = 1) =>
  () => {
    assert.deepEqual(
      codes(harness, name),
      Array.from({ length: times }, () => "INSTANCE_LOST"),
    );
    assert.equal(harness.status(name).state, "STANDBY");
  };

test("a sandbox whose init was killed says so, and the next request starts it again", async () => {
  await using harness = await HostHarness.start();
  await harness.create("killed");
  await harness.call("killed", "POST", "/process", { name: "long", command: "sleep 1000" });
  await harness.kill(harness.record("killed").id);
  await eventually(dead(harness, "killed"));
  const [error] = harness.status("killed").errors;
  assert.equal(error?.fatal, false);
  assert.equal(error?.instance, harness.record("killed").id);
  assert.deepEqual(
    (await processes(harness, "killed")).map(({ name, status }) => ({ name, status })),
    [{ name: "long", status: "killed" }],
  );
  const { cause } = (await harness.call("killed", "GET", "/process/long")) as { cause: { kind: string; by: string } };
  assert.deepEqual([cause.kind, cause.by, harness.record("killed").startCount], ["killed_by", "platform", 1]);
  assert.equal(harness.status("killed").state, "RUNNING");
  const ran = await harness.call("killed", "POST", "/process", { command: "echo back", waitForCompletion: true });
  assert.equal(ran.stdout, "back\n");
});

test("many requests that meet a dead sandbox start it once and are all answered", async () => {
  await using harness = await HostHarness.start();
  await harness.create("killed");
  await harness.kill(harness.record("killed").id);
  await eventually(dead(harness, "killed"));
  await Promise.all(Array.from({ length: 50 }, () => harness.call("killed", "GET", "/process")));
  assert.equal(harness.driver.count("restart"), 1);
});

test("a sandbox that died in its sleep wakes on the next request", async () => {
  await using harness = await HostHarness.start({ idleTimeoutMs: 20 });
  await harness.create("killed");
  await eventually(() => assert.equal(harness.status("killed").state, "STANDBY"));
  await harness.kill(harness.record("killed").id);
  await eventually(dead(harness, "killed"));
  await processes(harness, "killed");
});

for (const how of ["asleep", "awake"] as const) {
  test(`a sandbox adopted ${how} whose death nobody has noticed wakes on the next request`, async () => {
    await using harness = await HostHarness.start();
    await harness.create("killed");
    await harness.call("killed", "POST", "/process", { name: "long", command: "sleep 1000" });
    const { id } = harness.record("killed");
    await harness.close();
    if (how === "awake") harness.driver.thaw(id);
    // The new daemon asks how the instance is, and right after the answer it dies.
    let condition: Awaited<ReturnType<typeof harness.driver.inspect>> | undefined;
    const inspect = harness.driver.inspect.bind(harness.driver);
    harness.driver.inspect = async (asked) => {
      condition ??= await inspect(asked);
      await harness.kill(id);
      harness.driver.inspect = inspect;
      return condition;
    };
    await harness.open();
    assert.equal(condition?.status, how === "asleep" ? "frozen" : "running");
    assert.equal((await processes(harness, "killed"))[0]?.status, "killed");
    assert.deepEqual(codes(harness, "killed"), ["INSTANCE_LOST"]);
  });
}

test("what a death leaves to do is done before the next start, whose processes it does not touch", async () => {
  await using harness = await HostHarness.start();
  await harness.create("killed");
  await harness.call("killed", "POST", "/process", { name: "before", command: "sleep 1000" });
  const inspected = Promise.withResolvers<void>();
  harness.driver.before.inspect = () => inspected.promise;
  await harness.kill(harness.record("killed").id);
  await eventually(() => assert.equal(harness.status("killed").state, "STANDBY"));
  const started = harness.call("killed", "POST", "/process", { name: "after", command: "sleep 1000" });
  setTimeout(inspected.resolve, 100);
  await started;
  assert.deepEqual(
    (await processes(harness, "killed")).map(({ name, status }) => `${name} ${status}`),
    ["before killed", "after running"],
  );
  assert.deepEqual(harness.driver.overlaps, []);
});

test("who waits for a command or follows its log when the init dies is told that it was killed", async () => {
  await using harness = await HostHarness.start();
  await harness.create("killed");
  const command = { name: "long", command: "echo begun; exec sleep 1000", waitForCompletion: true };
  const waiting = harness.call("killed", "POST", "/process", command);
  await eventually(async () => {
    assert.equal((await harness.call("killed", "GET", "/process/long/logs")).stdout, "begun\n");
  });
  const stream = await harness.ask("killed", "GET", "/process/long/logs/stream");
  await harness.kill(harness.record("killed").id);
  assert.equal(await stream.text(), "stdout:begun\n");
  const { status, exitCode, stdout } = await waiting;
  assert.deepEqual({ status, exitCode, stdout }, { status: "killed", exitCode: null, stdout: "begun\n" });
});

test("a restart that fails is told, paused after, and tried again by later requests without end", async () => {
  await using harness = await HostHarness.start({ faults: { failedStarts: [2, 3, 4] } });
  await harness.create("hard");
  await harness.kill(harness.record("hard").id);
  await eventually(dead(harness, "hard"));
  for (let failure = 1; failure <= 3; failure++) {
    assert.equal((await harness.ask("hard", "GET", "/process")).status, 503);
  }
  await processes(harness, "hard");
  assert.deepEqual(codes(harness, "hard"), ["INSTANCE_LOST", ...Array(3).fill("RESTART_FAILED")]);
  assert.ok(harness.status("hard").errors.every(({ fatal }) => !fatal));
});

test("what is told of repeated deaths is bounded, in memory and on disk", async () => {
  await using harness = await HostHarness.start();
  await harness.create("dying");
  const { id } = harness.record("dying");
  const errors = () => harness.status("dying").errors;
  for (let death = 1; death <= 3; death++) {
    await harness.kill(id);
    await eventually(dead(harness, "dying", death));
    await processes(harness, "dying");
  }
  // The same through the records of daemons that come and go, which is faster than being held back after each death.
  for (let death = 4; death <= 25; death++) {
    await harness.close();
    await harness.kill(id);
    await harness.open();
    await eventually(() => assert.equal(errors().length, Math.min(death, 20)));
  }
  assert.equal(harness.record("dying").errors.length, 20);
});

test("deleting works while the instance is being started again", async () => {
  await using harness = await HostHarness.start();
  const { instanceId } = await harness.create("killed");
  await harness.kill(harness.record("killed").id);
  await eventually(dead(harness, "killed"));
  const restarting = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  harness.driver.before.restart = () => {
    restarting.resolve();
    return held.promise;
  };
  const asked = harness.ask("killed", "GET", "/process");
  await restarting.promise;
  const deleted = harness.host.deleteInstance(instanceId);
  held.resolve();
  await deleted;
  assert.equal((await asked).status, 503);
  assert.deepEqual(harness.directories(), []);
  assert.deepEqual(harness.driver.overlaps, []);
});

test("an instance that cannot be destroyed at first is destroyed later, and its sandbox is out of reach at once", async () => {
  // Nobody but the test tries.
  await using harness = await HostHarness.start({ removeRetryMs: 3_600_000 });
  const { instanceId } = await harness.create("clinging");
  let refusals = 2;
  harness.driver.before.destroy = () => {
    if (refusals-- > 0) throw new Error("busy");
  };
  await assert.rejects(harness.host.deleteInstance(instanceId));
  assert.equal((await harness.ask("clinging", "GET", "/health")).status, 503);
  await assert.rejects(harness.host.deleteInstance(instanceId));
  await harness.host.deleteInstance(instanceId);
  assert.deepEqual(harness.directories(), []);
  assert.equal((await harness.ask("clinging", "GET", "/health")).status, 404);
});

test("a creation that fails leaves nothing, even when what it made cannot be destroyed at first", async () => {
  await using harness = await HostHarness.start({ faults: { failedStarts: [1] }, removeRetryMs: 50 });
  let refusals = 2;
  harness.driver.before.destroy = () => {
    if (refusals-- > 0) throw new Error("busy");
  };
  await assert.rejects(harness.create("unlucky"), { code: "internal", message: /^The sandbox could not be started; / });
  await eventually(() => assert.deepEqual(harness.directories(), []));
});

test("without an init nothing is created, and nothing is left", async () => {
  await using harness = await HostHarness.start({ warmInstances: 2 });
  await harness.host.warmed();
  harness.driver.before.create = () => {
    throw new Error("spawn ENOENT");
  };
  // The warm ones still serve.
  await harness.create("first");
  await harness.create("second");
  await assert.rejects(harness.create("third"));
  // The pool tries, too, now and then.
  await eventually(() => assert.equal(harness.directories().length, 2));
});
