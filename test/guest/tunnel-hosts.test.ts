// Byte streams from inside to names and addresses: what the sandbox's own files and network say, and nothing of this machine's.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { startFakeGuest } from "./fake-guest.ts";
import { type RunningGuest, startGuest } from "./start-guest.ts";

/** A network and an /etc of its own: files of the directory below are what it reads. */
const inside = `set -e
ip link set lo up; ip address add 10.99.0.1/24 dev lo
mount -t tmpfs none /mnt; mkdir /mnt/etc
echo "127.0.0.1 localhost callback.test" > /mnt/etc/hosts
printf 'nameserver 127.0.0.1\\noptions timeout:9 attempts:3\\n' > /mnt/etc/resolv.conf
[ "$HOSTS" = fifo ] && rm /mnt/etc/hosts && mkfifo /mnt/etc/hosts
[ "$HOSTS" = endless ] && ln -sf /dev/zero /mnt/etc/hosts
mount --bind /mnt/etc /etc
exec "$0"`;

/** Answers on every address with the one it was reached at, and questions for `dns.test` with 127.0.0.3. */
const servers = `
import socket, threading
def answer():
    server = socket.create_server(("0.0.0.0", 8080))
    while True:
        client, _ = server.accept()
        client.sendall(client.getsockname()[0].encode()); client.close()
threading.Thread(target=answer, daemon=True).start()
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); names.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    asked, who = names.recvfrom(512)
    known = asked[12:].startswith(b"\\x03dns\\x04test\\x00")
    a = asked[-4:-2] == b"\\x00\\x01"
    found = b"\\xc0\\x0c\\x00\\x01\\x00\\x01\\x00\\x00\\x00\\x3c\\x00\\x04\\x7f\\x00\\x00\\x03" if known and a else b""
    head = asked[:2] + (b"\\x81\\x80" if known else b"\\x81\\x83") + b"\\x00\\x01" + (b"\\x00\\x01" if found else b"\\x00\\x00") + b"\\x00" * 4
    names.sendto(head + asked[12:] + found, who)
`;

function start(hosts = "plain"): Promise<RunningGuest> {
  return startGuest({ under: ["unshare", "--net", "--mount", "env", `HOSTS=${hosts}`, "sh", "-c", inside] });
}

test("names are those of the sandbox's /etc/hosts and name servers, addresses those of its network", async () => {
  await using guest = await start();
  await using connection = await guest.open();
  const environment = { PATH: process.env.PATH ?? "" };
  await connection.spawn({ token: "servers", argv: ["python3", "-c", servers], workingDir: "/", environment });
  const reached = async (host: string): Promise<string> => text(await connection.connectTo(host, 8080));
  assert.equal(await eventually(() => reached("127.0.0.1")), "127.0.0.1");
  assert.equal(await reached("callback.test"), "127.0.0.1");
  assert.equal(await eventually(() => reached("dns.test")), "127.0.0.3");
  assert.equal(await reached("10.99.0.1"), "10.99.0.1");
  assert.equal(await reached("127.0.0.2"), "127.0.0.2");
  const refusals: [host: string, port: number, message: RegExp, errno: string][] = [
    ["nobody.test", 8080, /does not know the name nobody\.test/, "ENOENT"],
    ["callback.test", 8081, /does not reach callback\.test on port 8081/, "ECONNREFUSED"],
    ["::1", 8080, /does not reach ::1/, "ECONNREFUSED"],
    ["169.254.169.254", 80, /does not reach 169\.254\.169\.254/, "ENETUNREACH"],
    ["224.0.0.1", 80, /does not reach/, "ENETUNREACH"],
  ];
  for (const [host, port, message, errno] of refusals) {
    await assert.rejects(connection.connectTo(host, port), { code: "upstream_failed", message, details: { errno } });
  }
  for (const host of ["", "a b", "[::1]", "fe80::1%eth0", "a/b", "a".repeat(254)]) {
    await assert.rejects(connection.connectTo(host, 80), { code: "invalid_request" });
  }
  for (const port of [0, 65_536, 1.5]) {
    await assert.rejects(connection.connectTo("callback.test", port), { code: "invalid_request" });
  }
  await connection.signal("servers", 9);
});

/** Of a guest that runs nothing else. */
function workers({ pid }: RunningGuest): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
}

for (const hosts of ["fifo", "endless"]) {
  test(`an /etc/hosts that is ${hosts} holds up its own worker only, and not for ever`, async () => {
    await using guest = await start(hosts);
    await using connection = await guest.open();
    const patience = new AbortController();
    const refused = assert.rejects(connection.connectTo("callback.test", 80, patience.signal));
    await eventually(() => assert.equal(workers(guest).length, 1));
    patience.abort();
    await refused;
    await connection.ping();
    await eventually(() => assert.deepEqual(workers(guest), []));
  });
}

test("an init of an earlier revision is not asked", async () => {
  await using fake = await startFakeGuest({ hello: Buffer.from("4341544e01000103", "hex") });
  await using connection = await fake.open();
  await assert.rejects(connection.connectTo("127.0.0.1", 80), {
    code: "unprocessable",
    details: { ability: "connectTo" },
  });
});
