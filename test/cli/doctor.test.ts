// The doctor's verdict on machines of every kind, and on this one.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { CheckStatus, Installation } from "../../src/cli/doctor/check.ts";
import { examine } from "../../src/cli/doctor/checks.ts";
import { createProbes, type Probes } from "../../src/cli/doctor/probes.ts";
import { makeCertificate } from "../edge/certificate.ts";
import { eventually } from "../eventually.ts";
import { cli } from "./run-cli.ts";
import { json, serveWire } from "./wire-server.ts";

const installation: Installation = {
  dataDir: "/data",
  imageDir: "/data/images",
  guestBinary: "/project/guest/build/catnap-init",
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
    kernelRelease: "6.1.0-18-amd64",
    readFile: (path) => allFiles[path],
    stat: (path) => allPaths[path],
    isExecutable: (path) => path === "/project/guest/build/catnap-init",
    findProgram: (name) => (missingPrograms.includes(name) ? undefined : `/usr/bin/${name}`),
    isWritable: () => true,
    runProgram: async () => ({ output: "" }),
    freeDiskBytes: () => 50 * 1024 ** 3,
    addressUser: async () => "free",
    ...more,
  };
}

const noOverlay = { "/proc/filesystems": "nodev\tnooverlay\n" };
const failing: Probes["runProgram"] = async () => ({ failure: "exit code 1: not found" });
const noCgroup2 = { "/sys/fs/cgroup/cgroup.controllers": undefined };
const cgroup1 = Object.fromEntries(
  ["cpu", "memory", "pids", "freezer"].map((name) => [`/sys/fs/cgroup/${name}`, directory]),
);

/** As nft prints a table with a chain that every forwarded packet goes through. */
const forwardChain = (policy: string, ...more: string[]): string =>
  [
    "table ip filter {",
    "\tchain FORWARD {",
    `\t\ttype filter hook forward priority filter; policy ${policy};`,
    ...more,
    "\t}",
    "}",
  ].join("\n");
const letIn = '\t\tiifname "cn*" counter packets 0 bytes 0 accept';
const letOut = '\t\toifname "cn*" accept';
const rules = (output: string): Machine => ({ runProgram: async () => ({ output }) });
const legacyRules = (output: string): Machine => ({
  files: { "/proc/net/ip_tables_names": "nat\nfilter\n" },
  runProgram: async (program) => ({ output: program.endsWith("iptables-legacy") ? output : "" }),
});

const cases: [machine: Machine, name: string, status: CheckStatus, text: RegExp][] = [
  [{ userId: 1000 }, "user", "problem", /sudo -i/],
  [{ nodeVersion: "22.1.0" }, "node", "problem", /22\.1\.0; 24 is needed/],
  [{ kernelRelease: "4.19.0-26-amd64" }, "kernel", "note", /older than any/],
  [{ kernelRelease: "5.9.16" }, "kernel", "note", /older/],
  [{ kernelRelease: "5.10.0" }, "kernel", "ok", /5\.10\.0/],
  [{ files: { "/proc/sys/user/max_user_namespaces": "0\n" } }, "user namespaces", "problem", /sysctl -w user/],
  [{ files: { "/proc/sys/user/max_user_namespaces": undefined } }, "user namespaces", "problem", /switched off/],
  [{ files: noOverlay }, "overlayfs", "note", /the platform loads it/],
  [{ files: noOverlay, missingPrograms: ["modprobe"] }, "overlayfs", "problem", /install --yes kmod/],
  [{ files: noOverlay, runProgram: failing }, "overlayfs", "problem", /CONFIG_OVERLAY_FS/],
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
  [
    { runProgram: async () => ({ failure: "Operation not permitted" }) },
    "nftables",
    "problem",
    /not permitted.*modprobe -a nf_tables/,
  ],
  [{ runProgram: async () => ({ failure: "no" }) }, "forwarding rules", "note", /cannot be listed/],
  [{ userId: 1000 }, "forwarding rules", "note", /only root/],
  [rules(forwardChain("accept")), "forwarding rules", "ok", /let sandboxes through/],
  [
    rules(forwardChain("drop")),
    "forwarding rules",
    "problem",
    /no network.*nft insert rule ip filter FORWARD iifname 'cn\*' accept/,
  ],
  [
    rules(forwardChain("drop", "\tchain DOCKER-USER {\n\t}")),
    "forwarding rules",
    "problem",
    /rule ip filter DOCKER-USER oif/,
  ],
  [rules(forwardChain("drop", letIn, letOut)), "forwarding rules", "ok", /let sandboxes through/],
  [rules(forwardChain("drop", letIn)), "forwarding rules", "problem", /no network/],
  [legacyRules("-P FORWARD ACCEPT"), "forwarding rules", "ok", /let sandboxes through/],
  [legacyRules("-P FORWARD DROP"), "forwarding rules", "problem", /iptables-legacy -I FORWARD -i cn\+ -j ACCEPT/],
  [
    legacyRules("-P FORWARD DROP\n-A FORWARD -o cn+ -j ACCEPT\n-A FORWARD -i cn+ -j ACCEPT"),
    "forwarding rules",
    "ok",
    /let sandboxes through/,
  ],
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
  [{ addressUser: async () => "catnap" }, "address", "ok", /a catnap answers/],
  [{ addressUser: async () => "other" }, "address", "problem", /another program has 127\.0\.0\.1:4000/],
  [{ addressUser: async () => "foreign" }, "address", "problem", /no address of this machine/],
  [{ addressUser: async () => "forbidden" }, "address", "problem", /may not answer/],
  [{ paths: { "/data": undefined } }, "data directory", "ok", /made at the first start/],
  [{ paths: { "/data": { ...directory, isDirectory: false } } }, "data directory", "problem", /not a directory/],
  [{ isWritable: () => false }, "data directory", "problem", /cannot be written to.*--data-dir/],
  [{ isWritable: () => false, paths: { "/data": undefined } }, "data directory", "problem", /cannot be made/],
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
  assert.equal(results.length, 20);
});

test("an address is free, a catnap's or another program's", async () => {
  const { addressUser } = createProbes({}, 0);
  const portOf = (url: string): number => Number(new URL(url).port);
  await using catnap = await serveWire({
    "GET /v0/sandboxes": json(401, { error: "unauthenticated", code: 401, message: "" }),
  });
  // It is given two seconds to answer in: a slow machine is asked again.
  await eventually(async () => assert.equal(await addressUser("127.0.0.1", portOf(catnap.url)), "catnap"));
  await using other = await serveWire({ "GET /v0/sandboxes": json(200, []) });
  assert.equal(await addressUser("127.0.0.1", portOf(other.url)), "other");
  const closed = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => closed.once("listening", resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  assert.equal(await addressUser("127.0.0.1", port), "free");
  assert.equal(await addressUser("192.0.2.1", port), "foreign");
});

test("a program whose answer has no end is another program's", { timeout: 60_000 }, async () => {
  const { addressUser } = createProbes({}, 0);
  const server = createServer((_, response) => {
    response.writeHead(401);
    const drip = setInterval(() => response.write("x"), 100);
    response.on("close", () => clearInterval(drip));
  }).listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    assert.equal(await addressUser("127.0.0.1", (server.address() as AddressInfo).port), "other");
  } finally {
    server.close();
  }
});

test("a catnap that answers with TLS is known, whoever has signed its certificate", async () => {
  const { addressUser } = createProbes({}, 0);
  const server = createTlsServer(makeCertificate(), (_, response) => {
    response.writeHead(401).end(JSON.stringify({ error: "unauthenticated", code: 401, message: "" }));
  }).listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await eventually(async () => assert.equal(await addressUser("127.0.0.1", port), "catnap"));
  } finally {
    server.close();
  }
});

test("a path is writable when its directory is, or where that would be made", () => {
  const { isWritable } = createProbes({}, 0);
  const dir = mkdtempSync(join(tmpdir(), "cli-doctor-"));
  try {
    writeFileSync(join(dir, "file"), "");
    assert.deepEqual(
      ["", "new/one", "file", "file/below"].map((path) => isWritable(join(dir, path))),
      [true, true, false, false],
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
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
