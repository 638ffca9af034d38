// Which addresses the platform may be made to connect to.
import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import { isPublicAddress } from "../../src/core/public-address.ts";

const inner = [
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "127.0.0.1",
  "127.255.255.254",
  "168.63.129.16",
  "100.100.100.200",
  "169.254.169.254",
  "192.0.0.192",
  "192.0.2.1",
  "192.88.99.1",
  "198.51.100.1",
  "203.0.113.1",
  "240.0.0.1",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "64:ff9b::a00:1",
  "2002:7f00:1::",
  "2001::1",
  "fc00::1",
  "fd12:3456::1",
  "fd00:ec2::254",
  "fe80::1",
  "fe80::1%eth0",
  "2606:4700::1111%eth0",
  "::127.0.0.1",
  "::ffff:0:127.0.0.1",
  "::ffff:169.254.169.254",
  "64:ff9b:1::a00:1",
  "64:ff9b::8.8.8.8",
  "2001:0:4136:e378::1",
  "2002:a00:1::",
  "2001:db8::1",
  "3fff::1",
  "5f00::1",
  "fec0::1",
  "ff02::1",
  "localhost",
  "",
  "0x7f000001",
  "127.1",
];
const outer = [
  "1.1.1.1",
  "8.8.8.8",
  "99.255.255.255",
  "100.128.0.1",
  "168.63.129.17",
  "172.32.0.1",
  "2606:4700::1111",
  "2a00:1450::1",
];

for (const address of inner) test(`"${address}" is not public`, () => assert.equal(isPublicAddress(address), false));
for (const address of outer) test(`${address} is public`, () => assert.equal(isPublicAddress(address), true));

test("no address of this machine is public", () => {
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  assert.ok(own.length > 0);
  for (const { address } of own) assert.equal(isPublicAddress(address), false, address);
});
