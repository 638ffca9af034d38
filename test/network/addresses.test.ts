// Address arithmetic, and what is read from the machine's files, as tables.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { chooseAddress, formatAddress, parseAddress, parseRange } from "../../src/host/network/addresses.ts";
import { aliasOf, deviceName, idOfAlias } from "../../src/host/network/devices.ts";
import { findResolvers } from "../../src/host/network/resolvers.ts";
import { parseRoutes } from "../../src/host/network/routes.ts";

describe("the sandboxes' address range", () => {
  it("is read from its usual form", () => {
    assert.deepEqual(parseRange("10.201.0.0/16"), { gateway: "10.201.0.1", base: 0x0ac9_0000, prefixLength: 16 });
    assert.deepEqual(parseRange("192.168.77.99/24"), { gateway: "192.168.77.1", base: 0xc0a8_4d00, prefixLength: 24 });
  });

  for (const wrong of [
    "",
    "10.201.0.0",
    "10.201.0.0/30",
    "10.201.0.0/7",
    "10.201.0.256/16",
    "fd00::/64",
    "10.1.1/16",
  ]) {
    it(`refuses ${JSON.stringify(wrong)}`, () => {
      assert.throws(() => parseRange(wrong), { code: "invalid_request" });
    });
  }

  it("gives every address but the first two and the last, each once, then none", () => {
    const range = parseRange("10.9.8.0/28");
    const taken = new Set<string>();
    for (let count = 0; count < 13; count++) taken.add(chooseAddress(range, `id${count}`, (one) => taken.has(one)));
    assert.deepEqual(
      [...taken].map((address) => parseAddress(address)! - range.base).sort((a, b) => a - b),
      [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
    );
    assert.throws(() => chooseAddress(range, "id", (one) => taken.has(one)), { code: "unavailable" });
  });

  it("begins elsewhere for another id, and in the same place for the same one", () => {
    const range = parseRange("10.201.0.0/16");
    const first = chooseAddress(range, "abcdefgh", () => false);
    assert.equal(
      chooseAddress(range, "abcdefgh", () => false),
      first,
    );
    assert.notEqual(
      chooseAddress(range, "abcdefgi", () => false),
      first,
    );
  });

  it("writes and reads addresses alike", () => {
    for (const address of ["0.0.0.0", "10.201.255.254", "255.255.255.255"]) {
      assert.equal(formatAddress(parseAddress(address)!), address);
    }
  });
});

describe("device names", () => {
  it("fit the kernel, keep the beginning and differ by id", () => {
    const names = new Set(["abcdefgh", "abcdefgi", "z".repeat(32)].map((id) => deviceName("cnabcd", id)));
    assert.equal(names.size, 3);
    for (const name of names) assert.match(name, /^cnabcd[a-z0-9]{9}$/);
  });

  it("come with the whole id", () => {
    assert.equal(idOfAlias(aliasOf("abcdefgh")), "abcdefgh");
    assert.equal(idOfAlias("somebody's"), undefined);
  });
});

describe("what the machine says of its network", () => {
  it("is read from the kernel's routes", () => {
    const text = [
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
      "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
      "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
      "cn1\t0707C90A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0",
      "",
    ].join("\n");
    assert.deepEqual(parseRoutes(text), [
      { device: "eth0", destination: "0.0.0.0", prefixLength: 0 },
      { device: "eth0", destination: "192.0.2.0", prefixLength: 24 },
      { device: "cn1", destination: "10.201.7.7", prefixLength: 32 },
    ]);
  });

  it("names servers that a sandbox can reach: not on the loopback, IPv4, three at most", () => {
    const dir = mkdtempSync(join(tmpdir(), "catnap-resolvers-"));
    try {
      const [stub, real] = [join(dir, "stub"), join(dir, "real")];
      writeFileSync(stub, "# local\nnameserver 127.0.0.53\nsearch example\n");
      writeFileSync(
        real,
        "nameserver fe80::1%2\n nameserver 9.9.9.9\nnameserver 1.1.1.1\nnameserver 8.8.8.8\nnameserver 8.8.4.4\n",
      );
      assert.deepEqual(findResolvers([stub, real]), ["9.9.9.9", "1.1.1.1", "8.8.8.8"]);
      assert.deepEqual(findResolvers([stub]), []);
      assert.deepEqual(findResolvers([join(dir, "missing")]), []);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
