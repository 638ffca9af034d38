// The doctor's verdict on machines of every kind, and on this one.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { type CheckStatus, examine, type Installation } from "../../src/cli/doctor/checks.ts";
import { createProbes, type Probes } from "../../src/cli/doctor/probes.ts";
import { cli } from "./run-cli.ts";
import { json, serveWire } from "./wire-server.ts";

const installation: Installation = {
  dataDir: "/data",
  imageDir: "/data/images",
  projectDir: "/project",
  ociRuntime: "runc",
  host: "127.0.0.1",
  port: 4000,
};

const files: Record<string, string> = {
  "/proc/sys/user/max_user_namespaces": "15000\n",
  "/proc/filesystems": "nodev\tsysfs\nnodev\toverlay\n\text4\n",
  "/proc/sys/kernel/seccomp/actions_avail": "kill_process kill_thread errno allow\n",
  "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
  "/proc/sys/net/ipv4/ip_forward": "1\n",
  "/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable:    4000000 kB\n",
  "/data/images/platform/base-image.json": '{"digest": "abc123"}',
};

const directory = { mode: 0o755, uid: 0, isDirectory: true };
const paths: Record<string, { mode: number; uid: number; isDirectory: boolean }> = {
  "/data": directory,
  "/data/images/rootfs/abc123": directory,
  "/data/credentials.json": { mode: 0o600, uid: 0, isDirectory: false },
};

type Machine = Omit<Partial<Probes>, "readFile" | "stat"> & {
  files?: object;
  paths?: object;
  missingPrograms?: string[];
};

function probes({ files: otherFiles, paths: otherPaths, missingPrograms = [], ...more }: Machine): Probes {
  const allFiles: Record<string, string | undefined> = { ...files, ...otherFiles };
  const allPaths: Record<string, (typeof paths)[string] | undefined> = { ...paths, ...otherPaths };
  return {
    userId: 0,
    nodeVersion: "24.21.0",
    readFile: (path) => allFiles[path],
    stat: (path) => allPaths[path],
    isExecutable: (path) => path === "/project/guest/build/catnap-init",
    findProgram: (name) => (missingPrograms.includes(name) ? undefined : `/usr/bin/${name}`),
    tryProgram: async () => undefined,
    freeDiskBytes: () => 50 * 1024 ** 3,
    portUser: async () => "free",
    ...more,
  };
}

const noCgroup2 = { "/sys/fs/cgroup/cgroup.controllers": undefined };
const cgroup1 = Object.fromEntries(
  ["cpu", "memory", "pids", "freezer"].map((name) => [`/sys/fs/cgroup/${name}`, directory]),
);

const cases: [machine: Machine, name: string, status: CheckStatus, text: RegExp][] = [
  [{ userId: 1000 }, "user", "problem", /sudo -i/],
  [{ nodeVersion: "22.1.0" }, "node", "problem", /22\.1\.0; 24 is needed/],
  [{ files: { "/proc/sys/user/max_user_namespaces": "0\n" } }, "user namespaces", "problem", /sysctl -w user/],
  [{ files: { "/proc/sys/user/max_user_namespaces": undefined } }, "user namespaces", "problem", /switched off/],
  [{ files: { "/proc/filesystems": "nodev\tnooverlay\n" } }, "overlayfs", "problem", /modprobe overlay/],
  [{ files: { "/proc/sys/kernel/seccomp/actions_avail": undefined } }, "seccomp", "problem", /CONFIG_SECCOMP_FILTER/],
  [{}, "cgroups", "ok", /version 2/],
  [{ files: { "/sys/fs/cgroup/cgroup.controllers": "cpu pids" } }, "cgroups", "problem", /version 2 without memory/],
  [{ files: noCgroup2, paths: cgroup1 }, "cgroups", "ok", /version 1/],
  [
    { files: noCgroup2, paths: { ...cgroup1, "/sys/fs/cgroup/unified": directory } },
    "cgroups",
    "ok",
    /1 and 2 together/,
  ],
  [
    { files: noCgroup2, paths: { ...cgroup1, "/sys/fs/cgroup/freezer": undefined } },
    "cgroups",
    "problem",
    /no freezer/,
  ],
  [{ missingPrograms: ["nft"] }, "nftables", "problem", /apt-get install --yes nftables/],
  [{ tryProgram: async () => "Operation not permitted" }, "nftables", "problem", /not permitted.*modprobe nf_tables/],
  [{ userId: 1000 }, "nftables", "note", /only root can tell/],
  [{ files: { "/proc/sys/net/ipv4/ip_forward": "0\n" } }, "ip forwarding", "note", /off/],
  [{ missingPrograms: ["runc"] }, "OCI runtime", "problem", /apt-get install --yes runc/],
  [
    { missingPrograms: ["umoci", "nsenter"] },
    "programs",
    "problem",
    /missing: umoci, nsenter.*install --yes umoci util-linux/,
  ],
  [{ isExecutable: () => false }, "sandboxes' init", "problem", /npm run setup/],
  [
    { files: { "/data/images/platform/base-image.json": undefined } },
    "base image",
    "problem",
    /not built.*npm run setup/,
  ],
  [{ paths: { "/data/images/rootfs/abc123": undefined } }, "base image", "problem", /files are gone/],
  [{ freeDiskBytes: () => 1024 ** 3 }, "disk", "problem", /1\.0 GiB free/],
  [{ freeDiskBytes: () => 3 * 1024 ** 3 }, "disk", "note", /little/],
  [{ freeDiskBytes: () => undefined }, "disk", "note", /cannot tell/],
  [{ files: { "/proc/meminfo": "MemAvailable: 100000 kB\n" } }, "memory", "problem", /98 MiB available/],
  [{ files: { "/proc/meminfo": "MemAvailable: 1000000 kB\n" } }, "memory", "note", /little/],
  [{ portUser: async () => "catnap" }, "address", "ok", /a catnap answers/],
  [{ portUser: async () => "other" }, "address", "problem", /another program has 127\.0\.0\.1:4000/],
  [{ paths: { "/data": undefined } }, "data directory", "ok", /made at the first start/],
  [{ paths: { "/data": { ...directory, isDirectory: false } } }, "data directory", "problem", /not a directory/],
  [{ paths: { "/data": { ...directory, mode: 0o777 } } }, "data directory", "problem", /chmod go-w/],
  [{ paths: { "/data": { ...directory, uid: 7 } } }, "data directory", "problem", /belongs to user 7/],
  [
    { paths: { "/data/credentials.json": { mode: 0o644, uid: 0, isDirectory: false } } },
    "credentials",
    "problem",
    /chmod 600/,
  ],
  [{ paths: { "/data/credentials.json": undefined } }, "credentials", "note", /first start/],
  [{}, "kvm", "note", /not needed/],
];

for (const [machine, name, status, text] of cases) {
  test(`${name}: ${status} when ${JSON.stringify(machine, (_, value) => (typeof value === "function" ? String(value) : value))}`, async () => {
    const result = (await examine(probes(machine), installation)).find((one) => one.name === name);
    assert.equal(result?.status, status);
    assert.match(`${result?.found} ${result?.remedy ?? ""}`, text);
    assert.equal(result?.remedy !== undefined, status === "problem");
  });
}

test("a machine with everything has no problem", async () => {
  const results = await examine(probes({}), installation);
  assert.deepEqual(
    results.filter(({ status }) => status === "problem"),
    [],
  );
  assert.equal(results.length, 18);
});

test("an address is free, a catnap's or another program's", async () => {
  const { portUser } = createProbes({}, 0);
  const portOf = (url: string): number => Number(new URL(url).port);
  await using catnap = await serveWire({
    "GET /v0/sandboxes": json(401, { error: "unauthenticated", code: 401, message: "" }),
  });
  assert.equal(await portUser("127.0.0.1", portOf(catnap.url)), "catnap");
  await using other = await serveWire({ "GET /v0/sandboxes": json(200, []) });
  assert.equal(await portUser("127.0.0.1", portOf(other.url)), "other");
  const closed = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => closed.once("listening", resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  assert.equal(await portUser("127.0.0.1", port), "free");
});

test("the command looks at this machine, changes nothing and tells by its exit code whether something is missing", async () => {
  const env = {
    PATH: process.env.PATH ?? "",
    CATNAP_DATA_DIR: "/nonexistent/data",
    CATNAP_OCI_RUNTIME: "no-such-runtime",
  };
  const run = await cli(["doctor", "--json", "--listen", "127.0.0.1:1"], { env });
  const { ok, checks } = JSON.parse(run.stdout) as {
    ok: boolean;
    checks: { name: string; status: string; remedy?: string }[];
  };
  assert.deepEqual([run.exitCode, ok], [1, false]);
  const statusOf = (name: string): string | undefined => checks.find((check) => check.name === name)?.status;
  assert.deepEqual(["OCI runtime", "base image", "data directory", "node", "address"].map(statusOf), [
    "problem",
    "problem",
    "ok",
    "ok",
    "ok",
  ]);
  const text = await cli(["doctor", "--listen", "127.0.0.1:1"], { env });
  assert.match(
    text.stdout,
    /^PROBLEM +OCI runtime +no-such-runtime is missing {2}-> {2}apt-get install --yes no-such-runtime$/m,
  );
  assert.match(text.stdout, /\n\d+ to mend; /);
});
