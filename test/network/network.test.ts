// The sandboxes' network for real: what a sandbox reaches and what it does not, asked by the same program and the same server.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createConnection, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { randomToken } from "../../src/core/ids.ts";
import type { InstanceHandle, InstanceSpec } from "../../src/host/drivers/driver.ts";
import { daemonPaths } from "../../src/host/drivers/oci/paths.ts";
import { runInside, shell, TestHost } from "../drivers/test-host.ts";
import { eventually } from "../eventually.ts";
import { type Outside, openOutside } from "./outside.ts";

type Instance = InstanceHandle & { spec: InstanceSpec };

/** `seconds`: how long silence is listened to. */
type Asking = { kind?: "tcp" | "udp"; source?: string; from?: Instance; seconds?: number };

const connectionsMax = 20;

/** Prints what the server says, or the name of the error. */
const probe = `
import errno, socket, sys
kind, address, port, source, seconds = sys.argv[1:]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as client:
    client.settimeout(int(seconds))
    try:
        if source: client.bind((source, 0))
        client.connect((address, int(port)))
        if kind == "udp": client.send(b"echo")
        print(client.recv(64).decode().strip() or "closed")
    except TimeoutError: print("silence")
    except OSError as error: print(errno.errorcode[error.errno])
`;

describe("the sandboxes' network", { timeout: 900_000 }, () => {
  let outside: Outside;
  let host: TestHost;
  let inside: Instance;

  before(async () => {
    outside = await openOutside();
    const resolvers = [outside.innerAddresses[0]!];
    host = await TestHost.open({ kind: "oci", network: { cidr: "10.210.0.0/16", resolvers, connectionsMax } });
    inside = await host.create();
  });

  after(async () => {
    await host[Symbol.asyncDispose]();
    await outside[Symbol.asyncDispose]();
    assert.deepEqual(await host.leftovers(), []);
  });

  async function ask(
    address: string,
    port: number,
    { kind = "tcp", source = "", from = inside, seconds = 30 }: Asking = {},
  ): Promise<string> {
    const argv = ["python3", "-c", probe, kind, address, `${port}`, source, `${seconds}`];
    const { end, stdout, stderr } = await runInside(from, argv);
    assert.deepEqual(end, { code: 0 }, stderr);
    return stdout.trim();
  }

  it("lets a sandbox reach the internet under the machine's address", async () => {
    assert.equal(await ask(outside.publicAddress, outside.port), outside.machineAddress);
  });

  it("refuses private, shared and link-local addresses, although the same server answers there", async () => {
    for (const address of outside.innerAddresses) {
      assert.equal(await askFromMachine(address, outside.port), outside.machineAddress);
      assert.equal(await ask(address, outside.port), "EHOSTUNREACH", address);
    }
  });

  it("lets a sandbox ask the name servers, and nothing else of them", async () => {
    const resolver = outside.innerAddresses[0]!;
    assert.match(await shell(inside, "cat /etc/resolv.conf"), new RegExp(`^nameserver ${resolver}$`, "m"));
    assert.equal(await ask(resolver, 53), outside.machineAddress);
    assert.equal(await ask(resolver, 53, { kind: "udp" }), "echo");
    assert.equal(await ask(resolver, outside.port), "EHOSTUNREACH");
    assert.equal(await ask(outside.innerAddresses[1]!, 53), "EHOSTUNREACH");
  });

  it("refuses every address of the machine, and shows its loopback as the sandbox's own", async () => {
    const server = createServer((connection) => connection.end("machine\n")).listen(0, "0.0.0.0");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const addresses = Object.values(networkInterfaces())
        .flatMap((list) => list ?? [])
        .filter(({ family, internal }) => family === "IPv4" && !internal)
        .map(({ address }) => address);
      assert.ok(addresses.includes(outside.machineAddress));
      for (const address of addresses) {
        assert.equal(await askFromMachine(address, port), "machine");
        assert.equal(await ask(address, port), "EHOSTUNREACH", address);
      }
      assert.equal(await ask("10.210.0.1", port), "EHOSTUNREACH");
      assert.equal(await ask("127.0.0.1", port), "ECONNREFUSED");
    } finally {
      server.close();
    }
  });

  it("refuses other sandboxes, of this daemon and of another", async () => {
    const serve =
      "import socket; s = socket.create_server(('0.0.0.0', 7000)); s.listen(); [s.accept() for _ in iter(int, 1)]";
    const address = await addressOf(inside);
    await shell(inside, `setsid python3 -c "${serve}" > /dev/null 2>&1 &`);
    const local = `python3 -c "import socket; socket.create_connection(('${address}', 7000)); print('connected')"`;
    assert.equal(await eventually(() => shell(inside, local)), "connected");
    const neighbour = await host.create();
    assert.notEqual(await addressOf(neighbour), address);
    assert.equal(await ask(address, 7000, { from: neighbour }), "EHOSTUNREACH");
    await using other = await TestHost.open({ kind: "oci", network: { cidr: "10.211.0.0/16" } });
    assert.equal(await ask(address, 7000, { from: await other.create() }), "EHOSTUNREACH");
    await host.driver.destroy(neighbour.id, neighbour.spec.dir);
  });

  it("drops what pretends to come from another address", async () => {
    const neighbour = await host.create();
    const { pid } = JSON.parse(readFileSync(join(inside.spec.dir, "driver/made"), "utf8")) as { pid: number };
    // Only the machine's root can prepare this: the sandbox may not change its addresses.
    for (const source of [await addressOf(neighbour), "10.210.255.250", "192.0.2.99"]) {
      execFileSync("nsenter", ["--target", String(pid), "--net", "ip", "addr", "add", `${source}/32`, "dev", "eth0"]);
      assert.equal(await ask(outside.publicAddress, outside.port, { source, seconds: 2 }), "silence", source);
    }
    assert.equal(
      await ask(outside.publicAddress, outside.port, { source: await addressOf(inside) }),
      outside.machineAddress,
    );
    await host.driver.destroy(neighbour.id, neighbour.spec.dir);
  });

  it("has no IPv6 beyond the loopback", async () => {
    assert.equal(await ask("2001:db8::1", 80), "ENETUNREACH");
    assert.equal(await ask("::1", 80), "ECONNREFUSED");
    assert.equal(await shell(inside, "grep -vc ' lo$' /proc/net/if_inet6 || true"), "0");
  });

  it("bounds the connections of one sandbox through the machine", async () => {
    const fresh = await host.create();
    const many = `
import errno, socket
kept = []
try:
    for _ in range(100): kept.append(socket.create_connection(("${outside.publicAddress}", ${outside.port}), 30))
except OSError as error: print(len(kept), errno.errorcode[error.errno])`;
    const { stdout } = await runInside(fresh, ["python3", "-c", many]);
    assert.equal(stdout.trim(), `${connectionsMax} EHOSTUNREACH`);
    assert.equal(await ask(outside.publicAddress, outside.port), outside.machineAddress);
    await host.driver.destroy(fresh.id, fresh.spec.dir);
  });

  it("keeps working when it is prepared again under running sandboxes", async () => {
    await host.driver.prepare();
    assert.equal(await ask(outside.publicAddress, outside.port), outside.machineAddress);
    assert.equal(await ask(outside.innerAddresses[2]!, outside.port), "EHOSTUNREACH");
  });

  it("leaves the rules of others alone and takes its own away", async () => {
    const foreign = `catnap_test_${randomToken(8)}`;
    execFileSync("nft", ["-f", "-"], {
      input: `table ip ${foreign} { chain forward { ip daddr 192.0.2.99 accept; }; }`,
    });
    try {
      const foreignRules = nft("list", "table", "ip", foreign);
      const other = await TestHost.open({ kind: "oci" });
      const own = `table inet catnap_${daemonPaths(other.dataDir).tag}`;
      assert.ok(nft("list", "tables").split("\n").includes(own));
      await other[Symbol.asyncDispose]();
      assert.ok(!nft("list", "tables").split("\n").includes(own));
      assert.equal(nft("list", "table", "ip", foreign), foreignRules);
    } finally {
      nft("delete", "table", "ip", foreign);
    }
  });
});

async function addressOf(instance: Instance): Promise<string> {
  const script =
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('198.51.100.1', 9)); print(s.getsockname()[0])";
  const { stdout } = await runInside(instance, ["python3", "-c", script]);
  return stdout.trim();
}

async function askFromMachine(address: string, port: number): Promise<string> {
  const socket = createConnection({ host: address, port });
  try {
    const [text] = await once(socket, "data");
    return String(text).trim();
  } finally {
    socket.destroy();
  }
}

function nft(...args: string[]): string {
  return execFileSync("nft", args, { encoding: "utf8" }).trim();
}
