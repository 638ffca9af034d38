// Which cgroup layout a machine has, from the text of its mount table.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { detectCgroups } from "../../src/host/drivers/oci/cgroup/detect.ts";

const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate";
const hybrid = `
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup systemd rw,xattr,name=systemd`;
const unifiedBeside = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
const v2 = { version: 2, mountPoint: "/sys/fs/cgroup" };
const v1 = (name: string) => ({ version: 1, mountPoint: `/sys/fs/cgroup/${name}` });

const cases = [
  {
    name: "everything on v2",
    mountinfo: unified,
    controllers: "cpuset cpu io memory hugetlb pids rdma misc\n",
    expected: {
      mode: "unified",
      unified: "/sys/fs/cgroup",
      controllers: { cpu: v2, memory: v2, pids: v2, freezer: v2 },
      hierarchies: ["/sys/fs/cgroup"],
    },
  },
  {
    name: "everything on v1",
    mountinfo: hybrid,
    controllers: "",
    expected: {
      mode: "legacy",
      unified: undefined,
      controllers: { cpu: v1("cpu,cpuacct"), memory: v1("memory"), pids: v1("pids"), freezer: v1("freezer") },
      hierarchies: ["cpu,cpuacct", "memory", "freezer", "pids", "systemd"].map((name) => `/sys/fs/cgroup/${name}`),
    },
  },
  {
    name: "v1 with a unified hierarchy beside it, which freezes",
    mountinfo: `${hybrid}\n${unifiedBeside}`,
    controllers: "\n",
    expected: {
      mode: "hybrid",
      unified: "/sys/fs/cgroup/unified",
      controllers: {
        cpu: v1("cpu,cpuacct"),
        memory: v1("memory"),
        pids: v1("pids"),
        freezer: { version: 2, mountPoint: "/sys/fs/cgroup/unified" },
      },
      hierarchies: ["cpu,cpuacct", "memory", "freezer", "pids", "systemd", "unified"].map(
        (name) => `/sys/fs/cgroup/${name}`,
      ),
    },
  },
  {
    name: "a controller on the unified hierarchy of a hybrid machine",
    mountinfo: `${hybrid.replace(/^.*pids.*$/m, "")}\n${unifiedBeside}`,
    controllers: "pids\n",
    expected: {
      mode: "hybrid",
      unified: "/sys/fs/cgroup/unified",
      controllers: {
        cpu: v1("cpu,cpuacct"),
        memory: v1("memory"),
        pids: { version: 2, mountPoint: "/sys/fs/cgroup/unified" },
        freezer: { version: 2, mountPoint: "/sys/fs/cgroup/unified" },
      },
      hierarchies: ["cpu,cpuacct", "memory", "freezer", "systemd", "unified"].map((name) => `/sys/fs/cgroup/${name}`),
    },
  },
  {
    name: "a hierarchy mounted twice",
    mountinfo: `${unified}\n${unified.replace("/sys/fs/cgroup", "/mnt/elsewhere")}`,
    controllers: "memory",
    expected: {
      mode: "unified",
      unified: "/sys/fs/cgroup",
      controllers: { memory: v2, freezer: v2 },
      hierarchies: ["/sys/fs/cgroup"],
    },
  },
  {
    name: "no cgroups",
    mountinfo: "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n",
    controllers: "",
    expected: { mode: "none", unified: undefined, controllers: {}, hierarchies: [] },
  },
] as const;

describe("cgroup detection", () => {
  for (const { name, mountinfo, controllers, expected } of cases) {
    it(`knows ${name}`, () => {
      assert.deepEqual(
        detectCgroups(mountinfo, () => controllers),
        expected,
      );
    });
  }
});
