// Rules of the network's fields as a table: each at, below and above its boundary, each refusal with the field's name and its rule.
import assert from "node:assert/strict";
import { test } from "node:test";
import { allows, answerTo, refuses } from "./spec-rules.ts";

const network = (member: string) => (value: unknown) => ({ network: { [member]: value } });
const proxy = (member: string) => (value: unknown) => ({ network: { proxy: { [member]: value } } });
const routing = (rule: object) => ({ network: { proxy: { routing: [{ destinations: ["*"], ...rule }] } } });

test("domains may have a wildcard in front", () => {
  const domain = "a.".repeat(125);
  const members = ["allowedDomains", "forbiddenDomains", "bypass"];
  for (const toSpec of [...members.map(proxy), network("allowedDomains"), network("forbiddenDomains")]) {
    const good = [
      "example.com",
      "*.example.com",
      "EXAMPLE.com",
      "*",
      "localhost",
      "10.0.0.1",
      "::1",
      "a_b.example",
      "xn--bcher-kva.example",
    ];
    allows(
      toSpec,
      good.map((one) => [one]),
    );
    allows(toSpec, [[], [`${"a".repeat(63)}.com`], [`${domain}abc`], null]);
    const bad = [
      "",
      "a..b",
      ".a",
      "a.",
      "*.*.a",
      "a.*",
      "*a.com",
      "**",
      "-a.com",
      "a-.com",
      "http://a.com",
      "a.com/x",
      "a.com:80",
      "a b.com",
      "999.1.1.1",
      "1.2.3",
    ];
    refuses(
      toSpec,
      bad.map((one) => [one]),
      /\[0\] must be a domain, a wildcard such as \*\.example\.com, or an IP address$/,
    );
    refuses(toSpec, [[`${"a".repeat(64)}.com`]], /\[0\] must be a domain/);
    refuses(toSpec, [["a.com", "b.com", "A.com"]], /\[2\] must differ from the others: a\.com appears twice$/);
    refuses(toSpec, [[`${domain}abcd`]], /\[0\] must not have more than 253 characters/);
    refuses(toSpec, ["a.com", { 0: "a.com" }], /must be an array$/);
  }
});

test("rules of the proxy refer to their own secrets", () => {
  const secrets = { key: "v", "other.key-2_": "w" };
  allows(
    () =>
      routing({
        headers: { Authorization: "Bearer {{SECRET:key}}" },
        body: { token: "{{SECRET:other.key-2_}}{{SECRET:key}}" },
        secrets,
      }),
    [1],
  );
  allows(() => routing({ headers: { "x-plain": "{{not a reference}} {{SECRETS}}" } }), [1]);
  const headers = (value: string) => routing({ headers: { "x-key": value }, secrets });
  refuses(
    (value) => headers(value as string),
    ["{{SECRET:none}}", "{{SECRET:}}", "{{SECRET: key}}", "{{SECRET:__proto__}}", "{{SECRET:constructor}}"],
    /^spec\.network\.proxy\.routing\[0\]\.headers\.x-key must refer to one of the rule's secrets/,
  );
  refuses(
    (value) => headers(value as string),
    ["{{SECRET:key", "{{SECRET:k{ey}}", "{{SECRET:{{SECRET:key}}}}"],
    /x-key must write references as \{\{SECRET:name\}\}$/,
  );
  refuses((value) => headers(value as string), ["a\r\nb: c", "a\0"], /x-key must be one line$/);
  refuses(
    (value) => routing({ body: { a: value } }),
    ["{{SECRET:key}}"],
    /routing\[0\]\.body\.a must refer to one of the rule's secrets: there is no "key"$/,
  );
  refuses(
    (value) => routing({ headers: { [value as string]: "v" } }),
    ["", "a b", "a:b", "ü"],
    /routing\[0\]\.headers must have keys that are names of HTTP headers$/,
  );
  refuses(
    (value) => routing({ headers: { [value as string]: "v" } }),
    ["Host", "content-length", "Transfer-Encoding"],
    /must not be set: it carries the message$/,
  );
  refuses(
    (value) => routing({ secrets: { [value as string]: "v" } }),
    ["", "a b", "}}", "a".repeat(129)],
    /routing\[0\]\.secrets must have keys/,
  );
  refuses((value) => routing({ destinations: value }), [[], null], /destinations must name at least one destination/);
  refuses((value) => routing({ destinations: value }), [["*", "a.com"]], /destinations must be \* alone/);
});

test("modes, gateways, subnets, VPCs and rulesets", () => {
  allows(network("egress"), [
    {},
    { gateway: "gate-1", mode: "dedicated" },
    { policies: [{ destinations: ["a.com"], mode: "shared", name: "x" }] },
  ]);
  refuses(
    network("egress"),
    [{ mode: "fast" }, { policies: [{ mode: "fast" }] }],
    /mode must be one of dedicated, shared$/,
  );
  refuses(
    network("egress"),
    [{ gateway: "Not A Name" }],
    /^spec\.network\.egress\.gateway must be at most 49 lowercase/,
  );
  refuses(
    network("egress"),
    [{ policies: [{ destinations: ["http://x"] }] }],
    /policies\[0\]\.destinations\[0\] must be a domain/,
  );
  allows(network("firewall"), [{}, { rulesets: [] }, { rulesets: ["default", "proxy", "dedicated-ip"] }]);
  refuses(network("firewall"), [{ rulesets: ["open"] }], /rulesets\[0\] must be one of default, proxy, dedicated-ip$/);
  refuses(network("firewall"), [{ rulesets: ["proxy", "proxy"] }], /rulesets\[1\] must differ/);
  allows(network("subnet"), ["default", "a".repeat(49)]);
  refuses(network("subnet"), ["a".repeat(50), "A", "a/b"], /^spec\.network\.subnet must be at most 49 lowercase/);
  refuses((vpc) => ({ vpc }), ["a".repeat(50), "A", "a/b"], /^spec\.vpc must be at most 49 lowercase/);
  assert.equal(
    answerTo({ vpc: "default", network: { subnet: "default", firewall: { rulesets: ["default"] } } }),
    undefined,
  );
});
