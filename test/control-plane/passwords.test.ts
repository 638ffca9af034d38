// Passwords are kept as scrypt hashes that say how they were made; guessing is slowed down, and not knowing a name takes as long.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Revocations } from "../../src/control-plane/auth/revocations.ts";
import type { UsersTable } from "../../src/control-plane/db/tables/users.ts";
import { createPasswordHasher, type PasswordHasher } from "../../src/control-plane/users/password.ts";
import { createUserService } from "../../src/control-plane/users/service.ts";
import type { UserStore } from "../../src/control-plane/users/store.ts";
import { freezeClock } from "./freeze-clock.ts";

const cheap = { ln: 4, r: 8, p: 1 };

test("a hash names its parameters and is verified with them after the present ones have changed", async () => {
  const old = createPasswordHasher(cheap);
  const stored = await old.hash("pässword with spaces");
  assert.match(stored, /^scrypt\$ln=4,r=8,p=1\$[\w-]{22}\$[\w-]{43}$/);
  assert.notEqual(await old.hash("pässword with spaces"), stored);
  const current = createPasswordHasher({ ln: 5, r: 8, p: 2 });
  assert.equal(await current.verify("pässword with spaces", stored), true);
  assert.ok(current.isOutdated(stored));
  assert.ok(!old.isOutdated(stored));
  for (const wrong of ["", "password with spaces", "pässword with spaces ", "x".repeat(10_000)]) {
    assert.equal(await current.verify(wrong, stored), false, wrong.slice(0, 30));
  }
});

test("without a hash nothing matches, not even what is compared with instead", async () => {
  const hasher = createPasswordHasher(cheap);
  for (const stored of [null, undefined]) {
    for (const password of ["", "a", "x".repeat(300)]) assert.equal(await hasher.verify(password, stored), false);
  }
});

test("more than a few at once are refused rather than queued without end", async () => {
  const hasher = createPasswordHasher(cheap);
  const results = await Promise.allSettled(Array.from({ length: 100 }, () => hasher.verify("x", undefined)));
  const refused = results.filter((result) => result.status === "rejected");
  assert.equal(refused.length, 100 - 34);
  assert.equal(refused[0]!.reason.code, "rate_limited");
  assert.equal(await hasher.verify("x", undefined), false);
});

function serviceOf(rows: Partial<UsersTable>[], passwords: PasswordHasher) {
  const updates: [string, object][] = [];
  const store = {
    find: async (column: "email", value: string) => rows.find((row) => row[column] === value),
    update: async (id: string, changes: object) => void updates.push([id, changes]),
  };
  const service = createUserService({
    store: store as unknown as UserStore,
    revocations: new Revocations(),
    passwords,
  });
  return { service, updates };
}

test("wrong passwords are limited by account and by address, right ones cost nothing", async (t) => {
  freezeClock(t);
  const passwords = createPasswordHasher(cheap);
  const password_hash = await passwords.hash("right password");
  const row = { id: "u1", name: "mia", email: "mia@example.com", password_hash, disabled_at: null };
  const { service } = serviceOf([row], passwords);
  for (let count = 0; count < 100; count++) {
    assert.equal(
      (await service.verifyPassword("mia@example.com", "right password", { address: "192.0.2.1" }))?.id,
      "u1",
    );
  }
  const guess = (email: string, address: string) => service.verifyPassword(email, "wrong", { address });
  for (let count = 0; count < 10; count++) assert.equal(await guess("mia@example.com", "192.0.2.2"), undefined);
  await assert.rejects(guess("other@example.com", "192.0.2.2"), { code: "rate_limited" });
  assert.equal((await service.verifyPassword("mia@example.com", "right password", { address: "192.0.2.1" }))?.id, "u1");
  for (let count = 0; count < 40; count++) await guess("mia@example.com", `198.51.100.${count}`);
  await assert.rejects(guess("mia@example.com", "203.0.113.1"), { code: "rate_limited" });
  await assert.rejects(guess(" MIA@example.com", "203.0.113.2"), { code: "rate_limited" });
});

test("a browser that is known is counted by itself", async (t) => {
  freezeClock(t);
  const passwords = createPasswordHasher(cheap);
  const password_hash = await passwords.hash("right password");
  const row = { id: "u1", name: "mia", email: "mia@example.com", password_hash, disabled_at: null };
  const { service } = serviceOf([row], passwords);
  const attempt = (password: string, browser?: string) =>
    service.verifyPassword("mia@example.com", password, { browser });
  for (let count = 0; count < 50; count++) await attempt("wrong");
  await assert.rejects(attempt("right password"), { code: "rate_limited" });
  assert.equal((await attempt("right password", "known"))?.id, "u1");
  for (let count = 0; count < 50; count++) await attempt("wrong", "known");
  await assert.rejects(attempt("right password", "known"), { code: "rate_limited" });
  assert.equal((await attempt("right password", "another"))?.id, "u1");
});

test("guesses made at once are all counted", async (t) => {
  freezeClock(t);
  const passwords = createPasswordHasher(cheap);
  const { service } = serviceOf([], passwords);
  const guesses = Array.from({ length: 30 }, () =>
    service.verifyPassword("mia@example.com", "wrong", { address: "192.0.2.1" }),
  );
  const results = await Promise.allSettled(guesses);
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 10);
});

test("a right password is stored anew at the present cost", async () => {
  const password_hash = await createPasswordHasher(cheap).hash("right password");
  const row = { id: "u1", name: "mia", email: "mia@example.com", password_hash, disabled_at: null };
  const { service, updates } = serviceOf([row], createPasswordHasher({ ln: 5, r: 8, p: 1 }));
  await service.verifyPassword("mia@example.com", "wrong password");
  assert.equal(updates.length, 0);
  await service.verifyPassword("mia@example.com", "right password");
  assert.match(JSON.stringify(updates), /"u1".*ln=5/);
});
