// Which URLs may be asked, and which of a name's addresses connected to.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readOutgoingConfig } from "../../../src/control-plane/outgoing/config.ts";
import { OutgoingError } from "../../../src/control-plane/outgoing/failure.ts";
import { OutgoingPolicy } from "../../../src/control-plane/outgoing/policy.ts";

const none = new OutgoingPolicy({ allowedHosts: [] });

function refusalOf(url: string, policy = none): string | undefined {
  try {
    policy.requireUrl(url);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof OutgoingError);
    assert.equal(error.reason, "invalid_url");
    return error.message;
  }
}

describe("refused without asking anybody", () => {
  const refused: [string, RegExp][] = [
    ["", /absolute https URL/],
    ["not a url", /absolute https URL/],
    ["/v1/models", /absolute https URL/],
    ["ftp://example.com/", /absolute https URL/],
    ["file:///etc/passwd", /absolute https URL/],
    ["unix:/run/docker.sock", /absolute https URL/],
    ["javascript:alert(1)", /absolute https URL/],
    [`https://example.com/${"a".repeat(2_100)}`, /at most 2048/],
    ["http://example.com/", /must be https/],
    ["https://user@example.com/", /must not carry credentials/],
    ["https://user:pass@example.com/", /must not carry credentials/],
    ["https://:pass@example.com/", /must not carry credentials/],
    ["https://example.com@169.254.169.254/", /must not carry credentials/],
    ["https://example.com:22/", /port 443/],
    ["https://example.com:1023/", /port 443/],
    ["https://example.com:80/", /port 443/],
    ...[
      "127.0.0.1",
      "127.1",
      "0x7f.1",
      "0177.0.0.1",
      "2130706433",
      "0",
      "127.0.0.1.",
      "１２７.0.0.1",
      "10.0.0.1",
      "169.254.169.254",
      "0xa9fea9fe",
      "168.63.129.16",
      "100.100.100.200",
      "192.168.0.1",
      "224.0.0.1",
      "255.255.255.255",
      "[::1]",
      "[::]",
      "[::ffff:127.0.0.1]",
      "[::ffff:a9fe:a9fe]",
      "[::127.0.0.1]",
      "[64:ff9b::169.254.169.254]",
      "[2002:7f00:1::]",
      "[2001:0:7f00:1::]",
      "[fd00:ec2::254]",
      "[fe80::1]",
      "[ff02::1]",
    ].map((host): [string, RegExp] => [`https://${host}/`, /address inside/]),
  ];
  for (const [url, rule] of refused)
    test(url.slice(0, 60) || "an empty text", () => assert.match(refusalOf(url) ?? "accepted", rule));
});

describe("may be asked", () => {
  for (const url of [
    "https://example.com",
    "https://example.com:443/v1",
    "https://example.com:8443/v1",
    "https://8.8.8.8/",
    "https://[2606:4700::1111]/",
    "https://localhost/ (its addresses decide)".slice(0, 18),
  ]) {
    test(url, () => assert.equal(refusalOf(url), undefined));
  }
});

describe("hosts the operator allows", () => {
  const allowedOf = (text: string) => new OutgoingPolicy(readOutgoingConfig({ CATNAP_OUTGOING_ALLOWED_HOSTS: text }));
  const policy = allowedOf("127.0.0.1:8080, Ollama.Internal ,[0:0::1]:9000,10.0.0.5");

  test("are reached at the ports that are named, or at all, with and without TLS", () => {
    for (const url of [
      "http://127.0.0.1:8080/",
      "https://127.0.0.1:8080/",
      "http://ollama.internal/",
      "http://OLLAMA.internal:11434/",
      "https://ollama.internal:22/",
      "http://[::1]:9000/",
      "http://10.0.0.5:1/",
    ]) {
      assert.equal(refusalOf(url, policy), undefined, url);
    }
    for (const url of [
      "http://127.0.0.1:8081/",
      "https://127.0.0.1/",
      "http://[::1]:9001/",
      "http://sub.ollama.internal/",
      "http://ollama.internal.evil.example/",
      "http://10.0.0.50/",
    ]) {
      assert.notEqual(refusalOf(url, policy), undefined, url);
    }
    assert.match(refusalOf("http://x:y@ollama.internal/", policy) ?? "", /credentials/);
  });

  test("are whatever address their names have", async () => {
    const findAddresses = async () => [{ address: "10.1.2.3", family: 4 }];
    const named = new OutgoingPolicy({ allowedHosts: ["inner:80"], findAddresses });
    assert.deepEqual(await named.resolve("inner", 80), [{ address: "10.1.2.3", family: 4 }]);
    await assert.rejects(named.resolve("inner", 81), /no public address/);
  });

  test("are named as hosts; anything else is refused at the start", () => {
    for (const text of ["http://a", "a/b", "a b", "user@a", "a:99999", "::1", "[::1", "a:b", "*.example.com"]) {
      assert.throws(() => allowedOf(text), /CATNAP_OUTGOING_ALLOWED_HOSTS must be/, text);
    }
    assert.deepEqual(readOutgoingConfig({}).allowedHosts, []);
  });
});

describe("of a name's addresses", () => {
  const policyWith = (...addresses: string[]) =>
    new OutgoingPolicy({
      allowedHosts: [],
      findAddresses: async () => addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    });

  test("only the public ones are connected to, wherever they stand", async () => {
    const policy = policyWith("127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "169.254.169.254", "2606:4700::1111");
    const usable = await policy.resolve("mixed.example", 443);
    assert.deepEqual(
      usable.map(({ address }) => address),
      ["8.8.8.8", "2606:4700::1111"],
    );
  });

  test("a number that is too large is cut", async () => {
    const policy = policyWith(...Array.from({ length: 100 }, (_, index) => `8.8.8.${index + 1}`));
    assert.equal((await policy.resolve("many.example", 443)).length, 8);
  });

  test("none is public, none at all and an unknown name are told in the same words", async () => {
    const unknown = new OutgoingPolicy({
      allowedHosts: [],
      findAddresses: () => Promise.reject(new Error("ENOTFOUND")),
    });
    for (const policy of [policyWith("10.0.0.1"), policyWith(), unknown]) {
      await assert.rejects(policy.resolve("inner.example", 443), {
        reason: "no_public_address",
        message: "has no public address",
      });
    }
  });
});
