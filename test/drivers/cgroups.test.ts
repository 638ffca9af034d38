// What is written to control groups: on a tree of plain files that looks like cgroup v2, and on this machine's own freezers.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { AppError } from "../../src/core/errors.ts";
import { randomToken } from "../../src/core/ids.ts";
import { Cgroups, readCgroupLayout } from "../../src/host/drivers/oci/cgroup/cgroups.ts";
import { delegateControllers, moveProcesses, outsidersName } from "../../src/host/drivers/oci/cgroup/delegation.ts";
import type { CgroupLayout } from "../../src/host/drivers/oci/cgroup/detect.ts";
import { readPids } from "../../src/host/drivers/oci/cgroup/files.ts";
import { cpuQuota } from "../../src/host/drivers/oci/cgroup/limits.ts";
import { waitUntil } from "../../src/host/drivers/wait-until.ts";

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

describe("limits that a group has no file for", () => {
  const all = { "memory.max": "max", "cpu.max": "max 100000", "pids.max": "max" };
  const limits = { memoryMb: 64, cpuCores: 1, processesMax: 100 };
  for (const name of Object.keys(all)) {
    it(`are refused: ${name}`, () => {
      using fake = fakeUnified(Object.fromEntries(Object.entries(all).filter(([other]) => other !== name)));
      assert.throws(() => fake.cgroups.setLimits("sandbox1", limits), { code: "unavailable", message: RegExp(name) });
    });
  }
});

describe("controllers that v2 hands down", () => {
  const names = ["memory", "cpu", "pids"];
  const makeRoot = (texts: { root: string; parent?: string }): { root: string } & Disposable => {
    const root = mkdtempSync(join(tmpdir(), "catnap-cgroup-"));
    mkdirSync(join(root, "parent"));
    writeFileSync(join(root, "cgroup.subtree_control"), texts.root);
    writeFileSync(join(root, "parent", "cgroup.subtree_control"), texts.parent ?? "");
    return { root, [Symbol.dispose]: () => rmSync(root, { recursive: true }) };
  };

  it("are asked for in the hierarchy's first group and in the sandboxes', where they are missing", () => {
    using fake = makeRoot({ root: "cpuset memory cpu\n", parent: "\n" });
    delegateControllers(fake.root, "parent", names);
    assert.match(readFileSync(join(fake.root, "cgroup.subtree_control"), "utf8"), /^\+pids/);
    assert.equal(readFileSync(join(fake.root, "parent", "cgroup.subtree_control"), "utf8"), "+memory +cpu +pids");
  });

  it("are left alone where they are there, and where v2 has none", () => {
    using fake = makeRoot({ root: "cpu io memory pids\n", parent: "cpu memory pids\n" });
    delegateControllers(fake.root, "parent", names);
    delegateControllers(fake.root, "other", []);
    assert.equal(readFileSync(join(fake.root, "cgroup.subtree_control"), "utf8"), "cpu io memory pids\n");
  });

  it("come after the processes of a container have made room for them", () => {
    using fake = makeRoot({ root: "", parent: "memory cpu pids" });
    const answers = [new AppError("conflict", "no", { cause: Object.assign(new Error(), { code: "EBUSY" }) }), true];
    delegateControllers(fake.root, "parent", names, () => {
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer === true;
    });
    assert.deepEqual(answers, []);
    assert.ok(existsSync(join(fake.root, outsidersName)));
  });

  for (const { name, code, at } of [
    { name: "the group above does not have", code: undefined, at: "root" },
    { name: "the kernel refuses", code: "EINVAL", at: "root" },
    { name: "the sandboxes' own group refuses", code: "EBUSY", at: "parent" },
  ]) {
    it(`keep the platform from starting when ${name} them`, () => {
      using fake = makeRoot({ root: at === "root" ? "" : "memory cpu pids" });
      const write = (): boolean => {
        if (code === undefined) return false;
        throw new AppError("conflict", "no", { cause: Object.assign(new Error(code), { code }) });
      };
      const group = at === "root" ? fake.root : join(fake.root, "parent");
      assert.throws(() => delegateControllers(fake.root, "parent", names, write), {
        code: "unavailable",
        message: RegExp(`${group} does not hand down memory, cpu, pids: ${code ?? "The group above"}`),
      });
      assert.ok(!existsSync(join(group, outsidersName)));
    });
  }
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

const machine = readCgroupLayout();

describe("this machine's freezers", () => {
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

it("processes are moved out of a group, with those made meanwhile", {
  skip: machine.unified === undefined,
}, async () => {
  const group = join(machine.unified!, `catnap-test-${randomToken(8)}`);
  const child = await startIn(group);
  const exited = once(child, "exit");
  const below = join(group, "below");
  try {
    moveProcesses(group, below);
    assert.deepEqual(readPids(group), []);
    assert.ok(readPids(below).includes(child.pid!));
  } finally {
    child.kill("SIGKILL");
    await exited;
    const gone = await waitUntil(() => readPids(below).length + readPids(group).length === 0, { timeoutMs: 5_000 });
    assert.ok(gone);
    rmdirSync(below);
    rmdirSync(group);
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
