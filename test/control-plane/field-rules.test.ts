// Rules of single fields as a table: each at, below and above its boundary, each refusal with the field's name and its rule; and that
// nothing a caller may send makes them fail in any other way.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { AppError } from "../../src/core/errors.ts";
import { allows, answerTo, read, refuses } from "./spec-rules.ts";

const runtime = (member: string) => (value: unknown) => ({ runtime: { [member]: value } });
const policy = (type: string) => (value: unknown) => ({
  lifecycle: { expirationPolicies: [{ type, value, action: "delete" }] },
});
const volume = (value: unknown) => ({ volumes: [{ name: "data", mountPath: "/data", ...(value as object) }] });

test("lifetimes are durations from a second to a century", () => {
  for (const toSpec of [runtime("ttl"), policy("ttl-idle"), policy("ttl-max-age")]) {
    allows(toSpec, ["1s", "60s", "15m", "24h", "7d", "5200w", "3144960000s"]);
    refuses(toSpec, ["0s", "0w"], /(ttl|\[0\]\.value) must be at least 1s$/);
    refuses(toSpec, ["5201w", "3144960001s", "999999999999w"], /(ttl|\[0\]\.value) must be at most 5200w$/);
    refuses(
      toSpec,
      ["", "5", "m", "1.5h", "-1s", "1y", "1 h", "١s", "1h30m", "1e3s"],
      / must be a whole number and one of the units/,
    );
  }
});

test("moments are ISO 8601 with a time zone, and to come", () => {
  for (const toSpec of [runtime("expires"), policy("date")]) {
    allows(toSpec, [
      "2999-01-31T12:00Z",
      "2999-01-31T12:00:00Z",
      "2999-02-28T23:59:59.999999+23:59",
      "9999-12-31T00:00:00-05:00",
    ]);
    refuses(
      toSpec,
      ["2000-01-01T00:00:00Z", new Date(Date.now() - 1).toISOString()],
      /(expires|\[0\]\.value) must be in the future$/,
    );
    allows(toSpec, [new Date(Date.now() + 60_000).toISOString()]);
    const wrong = ["", "tomorrow", "2999-01-31", "2999-01-31T12:00:00", "2999-02-29T12:00:00Z", "2999-13-01T00:00:00Z"];
    const wronger = [
      "2999-01-31T24:00:00Z",
      "2999-01-31T12:60:00Z",
      "2999-01-31 12:00:00Z",
      "32503680000",
      "+002999-01-01T00:00:00Z",
    ];
    refuses(toSpec, [...wrong, ...wronger], / must be an ISO 8601 date and time with a time zone/);
  }
});

test("policies say what they are", () => {
  const policies = (...list: unknown[]) => ({ lifecycle: { expirationPolicies: list } });
  assert.match(
    answerTo(policies({ value: "1h" })) ?? "",
    /^spec\.lifecycle\.expirationPolicies\[0\]\.type is required$/,
  );
  assert.match(answerTo(policies({ type: "ttl-idle" })) ?? "", /\[0\]\.value is required$/);
  assert.match(
    answerTo(policies({ type: "never", value: "1h" })) ?? "",
    /\[0\]\.type must be one of ttl-idle, ttl-max-age, date/,
  );
  assert.match(
    answerTo(policies({ type: "date", value: "1h", action: "stop" })) ?? "",
    /\[0\]\.action must be one of delete/,
  );
  assert.equal(
    answerTo(policies({ type: "ttl-idle", value: "1h" }, { type: "ttl-max-age", value: "1d" })),
    "not available",
  );
  const many = (count: number) => policies(...Array.from({ length: count }, () => ({ type: "ttl-idle", value: "1h" })));
  assert.equal(answerTo(many(100)), "not available");
  assert.match(answerTo(many(101)) ?? "", /^spec\.lifecycle\.expirationPolicies/);
});

test("a grace period is a whole number of seconds up to a day, and none is the default", () => {
  allows(runtime("terminationGracePeriodSeconds"), [0, 1, 86_400, null]);
  refuses(runtime("terminationGracePeriodSeconds"), [-1], /must be at least 0$/);
  refuses(runtime("terminationGracePeriodSeconds"), [86_401], /must be at most 86400$/);
  refuses(runtime("terminationGracePeriodSeconds"), [0.5, "1"], /must be an integer$/);
  assert.equal(answerTo({ runtime: { terminationGracePeriodSeconds: 0 } }), undefined);
});

test("extra arguments are the kernel's options, on or off", () => {
  allows(runtime("extraArgs"), [{}, { iptables: "enabled" }, { nfs: "disabled", tun: "disabled" }, null]);
  refuses(
    runtime("extraArgs"),
    [{ nfs: "on" }, { tun: true }],
    /extraArgs\.(nfs|tun) must be one of enabled, disabled/,
  );
  refuses(runtime("extraArgs"), [{ gpu: "enabled" }], /extraArgs must be a map of iptables, nfs or tun/);
  assert.equal(answerTo({ runtime: { extraArgs: { tun: "disabled" } } }), undefined);
});

test("volumes have a place of their own that is not the system's", () => {
  allows((mountPath) => volume({ mountPath }), ["/data", "/a/b c", "/devices", "/processes", "/..."]);
  refuses(
    (mountPath) => volume({ mountPath }),
    ["data", "", "./data"],
    /^spec\.volumes\[0\]\.mountPath must be absolute$/,
  );
  refuses(
    (mountPath) => volume({ mountPath }),
    ["/a/", "/a//b", "/a/../b", "/a/.", "//a", "/a\0b", "/.."],
    /mountPath must be a normal path/,
  );
  refuses(
    (mountPath) => volume({ mountPath }),
    ["/", "/proc", "/sys", "/dev", "/dev/shm", "/proc/1"],
    /mountPath must not be \/ or below \/proc, \/sys, \/dev$/,
  );
  allows(volume, [{ type: "persistent" }, { type: "ephemeral", sizeMb: 1 }, { readOnly: true, sizeMb: 5 }]);
  refuses(volume, [{ type: "ephemeral" }], /sizeMb is required for an ephemeral volume$/);
  refuses(volume, [{ type: "ephemeral", sizeMb: 0 }], /sizeMb must be at least 1$/);
  refuses(volume, [{ type: "tape" }], /type must be one of persistent, ephemeral$/);
  refuses(volume, [{ name: null }], /^spec\.volumes\[0\]\.name is required$/);
  refuses(volume, [{ name: "Not A Name" }], /\.name must be at most 49 lowercase/);
  refuses(volume, [{ mountPath: null }], /\.mountPath is required$/);
  const two = (second: object) => ({
    volumes: [
      { name: "a", mountPath: "/a" },
      { name: "b", mountPath: "/b", ...second },
    ],
  });
  assert.match(
    answerTo(two({ name: "a" })) ?? "",
    /^spec\.volumes\[1\]\.name must differ from the others: a appears twice$/,
  );
  assert.match(answerTo(two({ mountPath: "/a" })) ?? "", /^spec\.volumes\[1\]\.mountPath must differ/);
});

test("texts that people read have no control characters", () => {
  const metadata = (displayName: string): string | undefined => {
    try {
      read({ metadata: { displayName }, spec: {} });
      return undefined;
    } catch (error) {
      return (error as AppError).message;
    }
  };
  assert.equal(metadata("Ünïcödé 🦊 & co"), undefined);
  for (const text of ["a\0", "a\nb", "\u007f"])
    assert.equal(metadata(text), "metadata.displayName must be without control characters");
  refuses((name) => ({ runtime: { ports: [{ target: 1, name }] } }), ["a\0", "x".repeat(64)], /ports\[0\]\.name must/);
});

test("whatever is sent is accepted or refused with a message, and never fails", () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom("1s", "/data", "*.a", "{{SECRET:x}}", "2999-01-01T00:00:00Z", "ephemeral", "date"),
  );
  const value = fc.oneof(
    text,
    fc.integer(),
    fc.constant(null),
    fc.array(text),
    fc.dictionary(text, text),
    fc.anything(),
  );
  const object = (...names: string[]) =>
    fc.record(Object.fromEntries(names.map((name) => [name, value])), { requiredKeys: [] });
  const spec = fc.record(
    {
      runtime: object(
        "image",
        "memory",
        "ports",
        "envs",
        "ttl",
        "expires",
        "terminationGracePeriodSeconds",
        "extraArgs",
      ),
      lifecycle: fc.record({
        expirationPolicies: fc.array(object("type", "value", "action")),
        terminatedRetention: value,
      }),
      network: fc.record({
        subnet: value,
        egress: value,
        firewall: value,
        proxy: object("allowedDomains", "bypass", "routing"),
      }),
      volumes: fc.array(object("name", "mountPath", "type", "sizeMb")),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(spec, (given) => {
      answerTo(given);
    }),
    { numRuns: 2_000 },
  );
});
