// Sealed texts open only with their key, for their record, unchanged.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { loadSealKey, SealKey } from "../../src/core/seal.ts";

const key = new SealKey(Buffer.alloc(32, 1));
const other = new SealKey(Buffer.alloc(32, 2));

test("what is sealed opens again, and shows nothing of itself", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 8, unit: "binary" }), fc.string(), (text, recordId) => {
      const sealed = key.seal(text, recordId);
      assert.equal(key.open(sealed, recordId), text);
      assert.ok(!sealed.includes(text));
      assert.notEqual(key.seal(text, recordId), sealed, "the nonce is fresh");
    }),
  );
});

test("another key, another record or a changed byte does not open it", () => {
  const sealed = key.seal("text", "record");
  assert.throws(() => other.open(sealed, "record"));
  assert.throws(() => key.open(sealed, "record2"));
  assert.throws(() => key.open("", "record"));
  assert.throws(() => key.open("v1.", "record"));
  const bytes = Buffer.from(sealed.slice(3), "base64url");
  for (let index = 0; index < bytes.length; index++) {
    const changed = Buffer.from(bytes);
    changed[index]! ^= 1;
    assert.throws(() => key.open(`v1.${changed.toString("base64url")}`, "record"), `byte ${index}`);
  }
});

test("fingerprints tell texts and keys apart", () => {
  assert.equal(key.fingerprint("a"), key.fingerprint("a"));
  assert.notEqual(key.fingerprint("a"), key.fingerprint("b"));
  assert.notEqual(key.fingerprint("a"), other.fingerprint("a"));
  assert.notEqual(key.id, other.id);
});

test("the key is made once, for its owner only", () => {
  const dir = mkdtempSync(join(tmpdir(), "catnap-seal-"));
  try {
    const path = join(dir, "seal.key");
    const { id } = loadSealKey(path);
    assert.equal(loadSealKey(path).id, id);
    assert.equal(statSync(path).mode & 0o777, 0o600);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
