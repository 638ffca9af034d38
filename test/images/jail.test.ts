// What a program can do that has been taken over while it handles an image: nothing outside what it was given.
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { runCommand } from "../../src/core/run-command.ts";
import { jailArguments, jailEnvironment } from "../../src/host/images/jail.ts";

const capabilities = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_MKNOD", "CAP_SETFCAP"];
let dir: string;

before(async () => {
  dir = await mkdtemp(join(tmpdir(), "catnap-jail-"));
  for (const name of ["given", "readable", "outside"]) await mkdir(join(dir, name));
  await writeFile(join(dir, "outside/file"), "untouched");
});
after(() => rm(dir, { recursive: true }));

async function inJail(script: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const command = jailArguments({
    writable: [{ from: join(dir, "given"), to: "/given" }],
    readable: [{ from: join(dir, "readable"), to: "/readable" }],
    capabilities,
    command: ["/bin/sh", "-c", script],
  });
  return await runCommand("bwrap", command, { env: jailEnvironment, okCodes: [1, 2, 32, 126, 127] });
}

const refused: [string, string][] = [
  ["write into the machine's programs", "echo x > /usr/bin/evil"],
  ["write into what it may read", "echo x > /readable/evil"],
  ["mount", "mount -t tmpfs none /given"],
  ["make what it may read writable", "mount -o remount,rw,bind /readable"],
  ["enter other namespaces", "nsenter --target 1 --net --mount true && unshare --mount true"],
  ["see the machine's processes", "test $(ls /proc | grep -c '^[0-9]') -gt 8"],
  [
    "use a network device besides its own loopback",
    "test $(ls /sys/class/net /proc/sys/net/ipv4/conf 2>/dev/null | grep -cv -e lo -e all -e default -e : -e '^$') -gt 0",
  ],
  ["read block devices it makes", "mknod /given/disk b 254 0 && head -c 1 /given/disk"],
  ["load kernel modules", "echo x > /proc/sys/kernel/modprobe"],
  ["trigger the kernel", "echo h > /proc/sysrq-trigger"],
];

describe("a program in the jail cannot", () => {
  for (const [what, script] of refused) {
    test(what, async () => {
      const { code, stdout } = await inJail(script);
      assert.notEqual(code, 0, stdout);
    });
  }

  test("reach the machine's loopback", async (t) => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    t.after(() => server.close());
    const port = await new Promise<number>((resolve) =>
      server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
    );
    const { code } = await inJail(`exec bash -c 'echo > /dev/tcp/127.0.0.1/${port}'`);
    assert.notEqual(code, 0);
    assert.equal(connections, 0);
  });

  test("change anything outside the directory it was given", async () => {
    await inJail(
      `cd /given; ln -s / root; echo x > root${dir}/outside/file; echo x > ../..${dir}/outside/new; rm -rf root/usr/bin/env`,
    );
    assert.equal(await readFile(join(dir, "outside/file"), "utf8"), "untouched");
    assert.deepEqual(await readdir(join(dir, "outside")), ["file"]);
    assert.ok((await readFile("/usr/bin/env")).length > 0);
  });
});

test("a program in the jail can write what it was given, as any owner", async () => {
  const { code, stderr } = await inJail(
    "echo made > /given/file && chown 2000001:2000002 /given/file && chmod 4755 /given/file",
  );
  assert.equal(code, 0, stderr);
  assert.equal(await readFile(join(dir, "given/file"), "utf8"), "made\n");
});

test("a program in the jail sees nothing of the daemon's environment", async () => {
  const { stdout } = await inJail("env; cat /proc/*/environ | tr '\\0' '\\n'");
  const names = new Set(
    stdout
      .split("\n")
      .map((line) => line.split("=")[0])
      .filter(Boolean),
  );
  assert.deepEqual([...names].sort(), ["HOME", "LANG", "PATH", "PWD"]);
});
