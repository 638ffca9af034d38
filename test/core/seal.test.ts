// Sealed texts open only with their key, for their record, unchanged.
import assert from "node:assert/strict";
import { createCipheriv } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { SealKey } from "../../src/core/seal.ts";
import { SealKeys } from "../../src/core/seal-keys.ts";

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
  assert.throws(() => key.open(key.prefix, "record"));
  assert.throws(() => key.open(sealed.replace(key.prefix, other.prefix), "record"), /a key that is not here/);
  const bytes = Buffer.from(sealed.slice(key.prefix.length), "base64url");
  for (let index = 0; index < bytes.length; index++) {
    const changed = Buffer.from(bytes);
    changed[index]! ^= 1;
    assert.throws(() => key.open(`${key.prefix}${changed.toString("base64url")}`, "record"), `byte ${index}`);
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
    const { id } = new SealKeys({ path }).key;
    assert.equal(new SealKeys({ path }).key.id, id);
    assert.equal(statSync(path).mode & 0o777, 0o600);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("a text of the first form, which does not name its key, opens with whichever key it was", () => {
  const bytes = Buffer.alloc(32, 1);
  const nonce = Buffer.alloc(12, 9);
  const cipher = createCipheriv("aes-256-gcm", bytes, nonce).setAAD(Buffer.from("record"));
  const sealed = Buffer.concat([cipher.update("text"), cipher.final()]);
  const first = `v1.${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url")}`;
  assert.equal(key.open(first, "record"), "text");
  const ring = new SealKey({ current: Buffer.alloc(32, 2), previous: [bytes], retiredFingerprintKeys: [] });
  assert.equal(ring.open(first, "record"), "text");
  assert.throws(() => other.open(first, "record"));
  const anew = ring.reseal(first, "record")!;
  assert.equal(other.open(anew, "record"), "text");
  assert.equal(ring.reseal(anew, "record"), undefined);
});

test("a change of the key is in the file before it is used, and the old key in no file after it has ended", () => {
  const dir = mkdtempSync(join(tmpdir(), "catnap-seal-"));
  try {
    const path = join(dir, "seal.key");
    const keys = new SealKeys({ path });
    const old = readFileSync(path);
    const sealed = keys.key.seal("text", "record");
    const fingerprint = keys.key.fingerprint("text");
    const { keyId, start } = keys.prepare();
    assert.notEqual(keys.key.id, keyId);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const meanwhile = new SealKeys({ path }).key;
    assert.deepEqual(
      [meanwhile.id, meanwhile.previousIds, meanwhile.open(sealed, "record")],
      [keyId, [keys.key.id], "text"],
    );
    start();
    assert.equal(keys.key.id, keyId);
    assert.throws(() => keys.prepare());
    const anew = keys.key.reseal(sealed, "record")!;
    keys.finish();
    keys.finish();
    assert.throws(() => keys.key.open(sealed, "record"));
    for (const key of [keys.key, new SealKeys({ path }).key]) {
      assert.deepEqual([key.id, key.previousIds, key.open(anew, "record")], [keyId, [], "text"]);
      assert.equal(key.matchesFingerprint(fingerprint, "text"), true);
      assert.equal(key.matchesFingerprint(fingerprint, "other"), false);
      assert.notEqual(key.fingerprint("text"), fingerprint);
    }
    for (const form of ["base64", "hex", "latin1"] as const)
      assert.ok(!readFileSync(path, "latin1").includes(old.toString(form)));
  } finally {
    rmSync(dir, { recursive: true });
  }
});
