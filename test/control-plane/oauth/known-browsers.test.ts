// The cookie of a browser in which a person has signed in: good for this person alone, and made by nobody else.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import type { FastifyReply, FastifyRequest } from "fastify";
import { createKnownBrowsers } from "../../../src/control-plane/oauth/known-browsers.ts";
import { SealKey } from "../../../src/core/seal.ts";

const sealKey = new SealKey(randomBytes(32));
const browsers = createKnownBrowsers({ sealKey, origin: "https://catnap.example.com" });

function remember(email: string, by = browsers): string {
  const lines: string[] = [];
  by.remember(
    { raw: { appendHeader: (_name: string, line: string) => lines.push(line) } } as unknown as FastifyReply,
    email,
  );
  return lines[0] ?? assert.fail("no cookie");
}

function find(cookie: string | undefined, email: string): string | undefined {
  return browsers.find({ headers: { cookie } } as unknown as FastifyRequest, email);
}

test("a browser is known for the person who signed in with it, and for nobody else", () => {
  const line = remember("mia@example.com");
  assert.match(line, /; Path=\/v0\/oauth\/interaction; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure$/);
  assert.ok(!line.includes("mia"));
  const cookie = line.split(";")[0]!;
  const known = find(cookie, "mia@example.com");
  assert.match(known ?? "", /^[a-z0-9]{25}$/);
  assert.equal(find(`a=b; ${cookie}; c=d`, "mia@example.com"), known);
  assert.equal(find(cookie, "ada@example.com"), undefined);
  assert.notEqual(find(remember("mia@example.com").split(";")[0], "mia@example.com"), known);
});

test("a cookie of another installation, a changed one and none are of no use", () => {
  const other = createKnownBrowsers({ sealKey: new SealKey(randomBytes(32)), origin: "http://127.0.0.1" });
  const foreign = remember("mia@example.com", other);
  assert.ok(!foreign.includes("Secure"));
  assert.equal(find(foreign.split(";")[0], "mia@example.com"), undefined);
  const cookie = remember("mia@example.com").split(";")[0]!;
  const [name, value = ""] = cookie.split("=");
  for (const changed of [
    undefined,
    "",
    value,
    `${name}=`,
    `${name}=${value.slice(0, -1)}`,
    `${name}=${"a".repeat(25)}${value.slice(25)}`,
    `x${cookie}`,
  ]) {
    assert.equal(find(changed, "mia@example.com"), undefined, String(changed));
  }
});
