// What is written to control groups: on a tree of plain files that looks like cgroup v2, and on this machine's own freezers.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { randomToken } from "../../src/core/ids.ts";
import { Cgroups, readCgroupLayout } from "../../src/host/drivers/oci/cgroup/cgroups.ts";
import type { CgroupLayout } from "../../src/host/drivers/oci/cgroup/detect.ts";
import { cpuQuota } from "../../src/host/drivers/oci/cgroup/limits.ts";

/** A v2 hierarchy of plain files, with one group `parent/sandbox1`. */
function fakeUnified(files: Record<string, string>): { cgroups: Cgroups; read(name: string): string } & Disposable {
  const root = mkdtempSync(join(tmpdir(), "catnap-cgroup-"));
  const group = join(root, "parent", "sandbox1");
  mkdirSync(group, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(group, name), text);
  const controller = { version: 2, mountPoint: root } as const;
  const controllers = { memory: controller, cpu: controller, pids: controller, freezer: controller };
  return {
    cgroups: new Cgroups({ mode: "unified", unified: root, controllers, hierarchies: [root] }, "parent"),
    read: (name) => readFileSync(join(group, name), "utf8"),
    [Symbol.dispose]: () => rmSync(root, { recursive: true }),
  };
}

describe("cgroup v2", () => {
  it("takes limits, a short period and no more swap", () => {
    const blank = (length: number): string => " ".repeat(length);
    const files = { "memory.max": "max", "memory.swap.max": "m", "memory.oom.group": "1", "pids.max": "max" };
    using fake = fakeUnified({ ...files, "cpu.max": blank(10), "cpu.max.burst": blank(4), "cpu.weight": "000" });
    fake.cgroups.setLimits("sandbox1", { memoryMb: 2048, cpuCores: 0.5, processesMax: 100 });
    assert.equal(fake.read("memory.max"), "2147483648");
    assert.equal(fake.read("memory.swap.max"), "0");
    assert.equal(fake.read("memory.oom.group"), "0");
    assert.equal(fake.read("cpu.max").trim(), "5000 10000");
    assert.equal(fake.read("cpu.max.burst"), "5000");
    assert.equal(fake.read("cpu.weight"), "500");
    assert.equal(fake.read("pids.max"), "100");
  });

  it("tells running, frozen, dead and missing", () => {
    const files = { "memory.current": "4096\n", "memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n" };
    const events = (populated: number, frozen: number): string => `populated ${populated}\nfrozen ${frozen}\n`;
    const inspect = (procs: string, text: string) => {
      using fake = fakeUnified({ ...files, "cgroup.procs": procs, "cgroup.events": text });
      return fake.cgroups.inspect("sandbox1");
    };
    const counts = { memoryBytes: 4096, oomKills: 2 };
    assert.deepEqual(inspect("11\n12\n", events(1, 0)), { status: "running", processCount: 2, ...counts });
    assert.deepEqual(inspect("11\n", events(1, 1)), { status: "frozen", processCount: 1, ...counts });
    assert.deepEqual(inspect("", events(0, 0)), { status: "dead", processCount: 0, ...counts });
    using fake = fakeUnified({});
    assert.equal(fake.cgroups.inspect("sandbox2").status, "missing");
  });

  it("counts processes, with what the kernel has of a peak and refusals", () => {
    const count = (files: Record<string, string>) => {
      using fake = fakeUnified(files);
      return fake.cgroups.countProcesses("sandbox1");
    };
    const files = { "pids.current": "17\n", "pids.max": "128\n" };
    assert.deepEqual(count(files), { current: 17, max: 128 });
    const more = { ...files, "pids.peak": "99\n", "pids.events": "max 3\n" };
    assert.deepEqual(count(more), { current: 17, max: 128, peak: 99, refusals: 3 });
    assert.equal(count({ ...more, "pids.max": "max\n" }), undefined);
    assert.equal(count({}), undefined);
  });

  it("freezes once the kernel confirms, and thaws with one write", async () => {
    using fake = fakeUnified({ "cgroup.freeze": "0", "cgroup.events": "populated 1\nfrozen 1\n" });
    await fake.cgroups.freeze("sandbox1");
    assert.equal(fake.read("cgroup.freeze"), "1");
    fake.cgroups.thaw("sandbox1");
    assert.equal(fake.read("cgroup.freeze"), "0");
  });

  it("stops waiting for a freeze that is given up, and refuses one of nothing", async () => {
    using fake = fakeUnified({ "cgroup.freeze": "0", "cgroup.events": "populated 1\nfrozen 0\n" });
    await fake.cgroups.freeze("sandbox1", AbortSignal.timeout(20));
    await fake.cgroups.freeze("sandbox1", AbortSignal.abort());
    await assert.rejects(fake.cgroups.freeze("sandbox2"), { code: "not_found" });
  });
});

describe("the processor quota", () => {
  for (const [cores, expected] of [
    [2, { quotaUs: 20_000, periodUs: 10_000 }],
    [0.125, { quotaUs: 1_250, periodUs: 10_000 }],
    [0.0625, { quotaUs: 1_000, periodUs: 16_000 }],
    [0.0001, { quotaUs: 1_000, periodUs: 1_000_000 }],
  ] as const) {
    it(`of ${cores} cores is never below what the kernel takes`, () => {
      assert.deepEqual(cpuQuota(cores), expected);
    });
  }
});

describe("this machine's freezers", () => {
  const machine = readCgroupLayout();
  const withoutUnified: CgroupLayout = {
    mode: "legacy",
    unified: undefined,
    controllers: { freezer: { version: 1, mountPoint: "/sys/fs/cgroup/freezer" } },
    hierarchies: ["/sys/fs/cgroup/freezer"],
  };
  const layouts = [
    { name: "v2", layout: { ...machine, hierarchies: [machine.unified ?? ""] }, skip: machine.unified === undefined },
    { name: "v1", layout: withoutUnified, skip: !existsSync("/sys/fs/cgroup/freezer") },
  ];
  for (const { name, layout, skip } of layouts) {
    it(`freeze, thaw and kill by ${name}, also what sleeps, and every process made meanwhile`, { skip }, async () => {
      const parent = `catnap-test-${randomToken(8)}`;
      const cgroups = new Cgroups(layout, parent);
      cgroups.prepare();
      const child = await startIn(cgroups.groups("sandbox1")[0]!);
      const exited = once(child, "exit");
      try {
        assert.equal(cgroups.inspect("sandbox1").status, "running");
        await cgroups.freeze("sandbox1");
        assert.equal(cgroups.inspect("sandbox1").status, "frozen");
        cgroups.thaw("sandbox1");
        assert.equal(cgroups.inspect("sandbox1").status, "running");
        await cgroups.freeze("sandbox1");
      } finally {
        await cgroups.killAll("sandbox1");
        assert.equal((await exited)[1], "SIGKILL");
        assert.equal(cgroups.inspect("sandbox1").status, "dead");
        mkdirSync(join(cgroups.groups("sandbox1")[0]!, "below"));
        await cgroups.remove("sandbox1");
        await cgroups.remove("sandbox1");
        assert.equal(cgroups.inspect("sandbox1").status, "missing");
        cgroups.removeParents();
      }
      assert.deepEqual(
        layout.hierarchies.filter((mountPoint) => existsSync(join(mountPoint, parent))),
        [],
      );
    });
  }
});

/** A shell that keeps making processes, in the group from its first command on. */
async function startIn(group: string): Promise<ChildProcess> {
  mkdirSync(group, { recursive: true });
  const script = `echo $$ > ${group}/cgroup.procs || exit; echo in; while :; do (true); done`;
  const child = spawn("/bin/sh", ["-c", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [text] = await once(child.stdout!, "data");
  if (String(text) !== "in\n") {
    rmdirSync(group);
    throw new Error("the shell did not enter the group");
  }
  return child;
}
