// Callbacks from inside a real sandbox: what its packet filter refuses is refused to them, by whatever name, and the machine itself asks nobody.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { after, before, describe, it } from "node:test";
import { createLogger } from "../../src/core/log.ts";
import type { InstanceHandle, InstanceSpec } from "../../src/host/drivers/driver.ts";
import { type GuestConnection, openGuest } from "../../src/host/guest/guest.ts";
import { parseCallback, postFromInside } from "../../src/sandbox-api/network/callback.ts";
import { shell, TestHost } from "../drivers/test-host.ts";
import { eventually } from "../eventually.ts";
import { type Outside, openOutside } from "./outside.ts";

type Instance = InstanceHandle & { spec: InstanceSpec };

const server = (port: number): string =>
  `setsid python3 -m http.server ${port} --bind 0.0.0.0 --directory /tmp > /dev/null 2>&1 &`;

describe("callbacks from inside a sandbox", { timeout: 900_000 }, () => {
  let outside: Outside;
  let host: TestHost;
  let inside: Instance;
  let other: Instance;
  let guest: GuestConnection;

  before(async () => {
    outside = await openOutside();
    const resolvers = [outside.innerAddresses[0]!];
    host = await TestHost.open({ kind: "oci", network: { cidr: "10.213.0.0/16", resolvers } });
    [inside, other] = await Promise.all([host.create(), host.create()]);
    // Each command run below takes the control connection over; workers have their own.
    const onLost = (): void => undefined;
    guest = await openGuest({ socketPath: inside.guestSocketPath, log: createLogger("silent"), onLost });
  });

  after(async () => {
    await guest[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
    await outside[Symbol.asyncDispose]();
    assert.deepEqual(await host.leftovers(), []);
  });

  const post = (url: string): Promise<void> =>
    postFromInside(guest, parseCallback(url), { pid: 1, port: 2 }, new AbortController().signal);

  const addressOf = (instance: Instance): Promise<string> => shell(instance, "hostname -I | tr -d ' \\n'");

  it("reach what the sandbox reaches, as the sandbox", async () => {
    await shell(inside, `echo "${outside.publicAddress} outside.test" >> /etc/hosts`);
    for (const name of [outside.publicAddress, "outside.test"]) {
      const stream = await guest.connectTo(name, outside.port);
      const [said] = await once(stream, "data");
      assert.equal(String(said).trim(), outside.machineAddress);
      stream.destroy();
    }
    await assert.rejects(post(`https://outside.test:${outside.port}/`), /TLS .* failed/);
    // Its own address: a server that has no POST.
    await shell(inside, server(9100));
    const own = `http://${await addressOf(inside)}:9100/`;
    await eventually(() => assert.rejects(post(own), /answered 501/));
    for (const url of ["http://localhost:9100/", "http://127.0.0.1:9100/", "http://127.0.0.7:9100/"]) {
      await assert.rejects(post(url), /answered 501/, url);
    }
  });

  it("reach neither this machine, nor what is private, nor another sandbox, by address or by name", async () => {
    let reached = 0;
    const machine = createServer((socket) => {
      reached += 1;
      socket.destroy();
    }).listen(0, "0.0.0.0");
    await once(machine, "listening");
    const { port } = machine.address() as AddressInfo;
    await shell(other, server(9100));
    const neighbour = await addressOf(other);
    await eventually(() =>
      shell(other, `python3 -c "import socket; socket.create_connection(('${neighbour}', 9100))"`),
    );
    const metadata = outside.innerAddresses.find((address) => address.startsWith("169.254."))!;
    const names = { "machine.test": outside.machineAddress, "metadata.test": metadata, "neighbour.test": neighbour };
    for (const [name, address] of Object.entries(names)) await shell(inside, `echo "${address} ${name}" >> /etc/hosts`);
    const refused: [url: string, errno: string][] = [
      [`http://${outside.machineAddress}:${port}/`, "EHOSTUNREACH"],
      [`https://${outside.machineAddress}:${port}/`, "EHOSTUNREACH"],
      [`http://machine.test:${port}/`, "EHOSTUNREACH"],
      [`http://10.213.0.1:${port}/`, "EHOSTUNREACH"],
      [`http://localhost:${port}/`, "ECONNREFUSED"],
      [`http://0.0.0.0:${port}/`, "ECONNREFUSED"],
      ["http://169.254.169.254/latest/meta-data/", "EHOSTUNREACH"],
      [`http://[::ffff:${metadata}]:${outside.port}/`, "EHOSTUNREACH"],
      [`http://metadata.test:${outside.port}/`, "EHOSTUNREACH"],
      [`http://0xA9FEA9FE/`, "EHOSTUNREACH"],
      [`http://neighbour.test:9100/`, "EHOSTUNREACH"],
      [`http://${neighbour}:9100/`, "EHOSTUNREACH"],
      ...outside.innerAddresses.map((address): [string, string] => [
        `http://${address}:${outside.port}/`,
        "EHOSTUNREACH",
      ]),
      [`http://[2001:db8::1]/`, "ENETUNREACH"],
    ];
    try {
      for (const [url, errno] of refused) {
        await assert.rejects(post(url), { code: "upstream_failed", details: { errno } }, url);
      }
      assert.equal(reached, 0);
    } finally {
      machine.close();
    }
  });

  it("ask for names where the sandbox does, not where this machine does", async () => {
    // Its name server answers with what it was asked, which is no answer; of this machine's own names it knows none.
    await shell(inside, "sed -i '$ a options timeout:1 attempts:1' /etc/resolv.conf");
    await assert.rejects(post("http://nobody.test/"), { code: "upstream_failed", message: /does not know the name/ });
    await shell(inside, "printf 'nameserver 127.0.0.1\\noptions timeout:1 attempts:1\\n' > /etc/resolv.conf");
    await assert.rejects(post("http://somebody.test/"), { code: "upstream_failed", message: /does not know the name/ });
  });
});
