// What every driver promises, as tests: each driver's own test file runs this with its kind.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { InstanceHandle, InstanceSpec } from "../../src/host/drivers/driver.ts";
import { eventually } from "../eventually.ts";
import { runInside, shell, signal, TestHost } from "./test-host.ts";

type Instance = InstanceHandle & { spec: InstanceSpec };

const never = (): AbortSignal => AbortSignal.timeout(60_000);

export function describeDriver(kind: "mock" | "oci"): void {
  describe(`the ${kind} driver`, { timeout: 900_000 }, () => {
    let host: TestHost;

    before(async () => {
      host = await TestHost.open({ kind });
    });

    after(async () => {
      await host[Symbol.asyncDispose]();
      assert.deepEqual(await host.leftovers(), []);
    });

    /** A place for files that lies in the instance where the driver isolates, and beside it where not. */
    const filesDir = ({ spec }: Instance): string =>
      host.driver.capabilities.isolation ? "/root" : join(spec.dir, "files");

    async function withInstance(work: (instance: Instance) => Promise<void>): Promise<void> {
      const instance = await host.create();
      if (!host.driver.capabilities.isolation) mkdirSync(filesDir(instance), { recursive: true });
      try {
        await work(instance);
      } finally {
        await host.driver.destroy(instance.id, instance.spec.dir);
      }
      assert.deepEqual(await host.leftovers(), []);
      assert.equal(existsSync(instance.spec.dir), false);
    }

    it("finds nothing missing on this machine and prepares it twice", async () => {
      assert.deepEqual(await host.driver.fingerprint(), []);
      await host.driver.prepare();
      await host.driver.prepare();
    });

    it("makes an instance that runs programs, sleeps, wakes and leaves nothing", async () => {
      await withInstance(async (instance) => {
        assert.equal(await shell(instance, "echo awake"), "awake");
        assert.equal((await host.driver.inspect(instance.id)).status, "running");
        await host.driver.freeze(instance.id);
        assert.equal((await host.driver.inspect(instance.id)).status, "frozen");
        host.driver.thaw(instance.id);
        assert.equal((await host.driver.inspect(instance.id)).status, "running");
        assert.equal(await shell(instance, "echo again"), "again");
      });
    });

    it("keeps the socket of an instance from others on the machine", async () => {
      await withInstance(async ({ guestSocketPath }) => {
        assert.equal(statSync(guestSocketPath).mode & 0o777, 0o600);
      });
    });

    it("repeats every verb without harm", async () => {
      await withInstance(async (instance) => {
        const again = await host.driver.create(instance.spec, never());
        assert.equal(again.guestSocketPath, instance.guestSocketPath);
        assert.equal((await host.driver.inspect(instance.id)).processCount, 1);
        for (let round = 0; round < 2; round++) await host.driver.freeze(instance.id);
        for (let round = 0; round < 2; round++) host.driver.thaw(instance.id);
        for (let round = 0; round < 2; round++) await host.driver.setLimits(instance.id, instance.spec.limits);
        assert.equal(await shell(instance, "echo still here"), "still here");
        for (let round = 0; round < 2; round++) await host.driver.destroy(instance.id, instance.spec.dir);
        assert.deepEqual(await host.driver.listFound(), []);
        assert.equal((await host.driver.inspect(instance.id)).status, "missing");
      });
    });

    it("destroys an instance that sleeps", async () => {
      await withInstance((instance) => host.driver.freeze(instance.id));
    });

    it("stops the processor of every process while frozen, and lets them go on after", async () => {
      await withInstance(async (instance) => {
        const counter = join(filesDir(instance), "count");
        await shell(
          instance,
          `setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > ${counter}; done' > /dev/null 2>&1 &`,
        );
        await eventually(() => shell(instance, `test -s ${counter}`));
        const pids = pidsOf(host, instance);
        assert.ok(pids.length >= 2);
        await host.driver.freeze(instance.id);
        const used = cpuTicks(pids);
        await spendTicks(20);
        assert.deepEqual(cpuTicks(pids), used);
        host.driver.thaw(instance.id);
        await eventually(() => assert.notDeepEqual(cpuTicks(pids), used));
      });
    });

    it("stays awake when a freeze is abandoned and thawed", async () => {
      await withInstance(async (instance) => {
        for (let round = 0; round < 20; round++) {
          const abort = new AbortController();
          const freezing = host.driver.freeze(instance.id, abort.signal);
          abort.abort();
          host.driver.thaw(instance.id);
          await freezing;
          host.driver.thaw(instance.id);
          assert.equal(await shell(instance, "echo awake"), "awake");
        }
      });
    });

    it("keeps files over a restart, and no process", async () => {
      await withInstance(async (instance) => {
        await shell(instance, `echo kept > ${filesDir(instance)}/file; setsid sleep 1000 > /dev/null 2>&1 &`);
        await host.driver.restart(instance.spec, never());
        assert.equal((await host.driver.inspect(instance.id)).processCount, 1);
        assert.equal(await shell(instance, `cat ${filesDir(instance)}/file`), "kept");
        await host.driver.freeze(instance.id);
        const handle = await host.driver.restart(instance.spec, never());
        assert.equal(await shell(handle, `cat ${filesDir(instance)}/file`), "kept");
      });
    });

    it("tells a dead instance and starts it again on its files", async () => {
      await withInstance(async (instance) => {
        await shell(instance, `echo kept > ${filesDir(instance)}/file`);
        for (const pid of pidsOf(host, instance)) signal(pid, "SIGKILL");
        await eventually(async () => assert.equal((await host.driver.inspect(instance.id)).status, "dead"));
        await host.driver.restart(instance.spec, never());
        assert.equal(await shell(instance, `cat ${filesDir(instance)}/file`), "kept");
      });
    });

    it("leaves nothing when making is given up at any moment", async () => {
      for (const afterMs of [0, 1, 4, 8, 15, 25, 35, 45, 55, 65]) {
        const spec = host.spec();
        const making = host.driver.create(spec, AbortSignal.timeout(afterMs));
        const outcome = await making.then(
          () => "made",
          (error: Error) => error.name,
        );
        if (outcome === "made") await host.driver.destroy(spec.id, spec.dir);
        else assert.equal(outcome, "AppError");
        assert.deepEqual(await host.leftovers(), [], `given up after ${afterMs} ms`);
      }
    });

    it("makes and destroys several at a time", async () => {
      const instances = await Promise.all([1, 2, 3, 4].map(() => host.create()));
      assert.deepEqual((await host.driver.listFound()).sort(), instances.map(({ id }) => id).sort());
      assert.deepEqual(await host.leftovers(instances.map(({ id }) => id)), []);
      await Promise.all(instances.map((instance) => shell(instance, "true")));
      await Promise.all(instances.map(({ id, spec }) => host.driver.destroy(id, spec.dir)));
      assert.deepEqual(await host.leftovers(), []);
    });

    it("is found and handled by the driver of a later daemon", async () => {
      await withInstance(async (instance) => {
        const { dataDir, cgroupParent } = host;
        await using later = await TestHost.open({ kind, dataDir, cgroupParent });
        assert.deepEqual(await later.driver.listFound(), [instance.id]);
        assert.equal((await later.driver.inspect(instance.id)).status, "running");
        await later.driver.freeze(instance.id);
        later.driver.thaw(instance.id);
        assert.equal(await shell(instance, "echo mine"), "mine");
        await later.driver.destroy(instance.id, instance.spec.dir);
      });
    });

    it("leaves the instances of another daemon alone", async () => {
      await withInstance(async (instance) => {
        await using other = await TestHost.open({ kind });
        assert.deepEqual(await other.driver.listFound(), []);
        const own = await other.create();
        await other.driver.destroy(own.id, own.spec.dir);
        assert.deepEqual(await other.leftovers(), []);
        assert.equal(await shell(instance, "echo untouched"), "untouched");
      });
    });

    it("refuses a directory that is not named after the instance", async () => {
      const spec = host.spec();
      await assert.rejects(host.driver.destroy(spec.id, host.dataDir), { code: "invalid_request" });
      await assert.rejects(host.driver.create({ ...spec, dir: host.dataDir }, never()), { code: "invalid_request" });
    });

    it("says what is wrong when the socket's path does not fit", async () => {
      const spec = host.spec();
      const dir = join(host.dataDir, "x".repeat(80), spec.id);
      await assert.rejects(host.driver.create({ ...spec, dir }, never()), { message: /path is too long/ });
      await host.driver.destroy(spec.id, dir);
      assert.deepEqual(await host.leftovers(), []);
    });

    it("reports an ended program's own exit code and signal", async () => {
      await withInstance(async (instance) => {
        assert.deepEqual((await runInside(instance, ["sh", "-c", "exit 7"])).end, { code: 7 });
        assert.deepEqual((await runInside(instance, ["sh", "-c", "kill -9 $$"])).end, { signal: 9 });
      });
    });
  });
}

/** Processes of an instance as the machine numbers them. */
function pidsOf(host: TestHost, { id, spec }: Instance): number[] {
  const group = `/sys/fs/cgroup/pids/${host.group}/${id}/cgroup.procs`;
  const unified = `/sys/fs/cgroup/${host.group}/${id}/cgroup.procs`;
  for (const file of [group, unified]) {
    if (existsSync(file)) return readFileSync(file, "utf8").split("\n").filter(Boolean).map(Number);
  }
  const init = JSON.parse(readFileSync(join(spec.dir, "driver/init.json"), "utf8")) as { pid: number };
  const children = readFileSync(`/proc/${init.pid}/task/${init.pid}/children`, "utf8");
  return [init.pid, ...children.split(" ").filter(Boolean).map(Number)];
}

/** Processor time each process has used, in the kernel's ticks. */
function cpuTicks(pids: readonly number[]): string[] {
  return pids.map((pid) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)!.split(" ");
      return `${pid}: ${fields[11]} ${fields[12]}`;
    } catch {
      return `${pid}: gone`;
    }
  });
}

/** Lets another process use so much processor time: a measure of time that passed for everyone. */
function spendTicks(count: number): Promise<void> {
  const script = `const until = Date.now() + ${count * 10}; while (Date.now() < until);`;
  return new Promise((resolve) => {
    spawn(process.execPath, ["-e", script]).once("exit", () => resolve());
  });
}
