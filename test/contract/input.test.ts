// What a caller sends costs as much as a schema allows, however much it is.
import assert from "node:assert/strict";
import { test } from "node:test";
import Type from "typebox";
import { compileInput } from "../../src/contract/input.ts";

/** An object that counts which of its members are read. */
function counted(members: number): { value: object; read: Set<string> } {
  const read = new Set<string>();
  const value = Object.fromEntries(Array.from({ length: members }, (_, index) => [`k${index}`, "v"]));
  const proxy = new Proxy(value, {
    get(target, key) {
      read.add(String(key));
      return Reflect.get(target, key);
    },
  });
  return { value: proxy, read };
}

const Schema = Type.Object({
  map: Type.Optional(Type.Record(Type.String(), Type.String(), { maxProperties: 3 })),
  list: Type.Optional(Type.Array(Type.Object({ a: Type.String() }), { maxItems: 3 })),
  closed: Type.Optional(
    Type.Object({ a: Type.Optional(Type.String()), b: Type.Optional(Type.String()) }, { additionalProperties: false }),
  ),
});
const read = compileInput(Schema, "body");

test("as much as is allowed is read, and nulls count for nothing", () => {
  const map = { a: "1", b: null, c: "2", d: null, e: "3" };
  assert.deepEqual(read({ map }), { map: { a: "1", c: "2", e: "3" } });
  const list = Array.from({ length: 3 }, () => ({ a: "x", unknown: 1 }));
  assert.deepEqual(read({ list }), { list: list.map(({ a }) => ({ a })) });
  assert.deepEqual(read({ closed: { b: "2", a: "1" } }), { closed: { a: "1", b: "2" } });
});

test("more than is allowed is refused by the first one too many", () => {
  const { value, read: seen } = counted(1_000);
  assert.throws(() => read({ map: value }), /map must not have more than 3 properties/);
  assert.ok(seen.size <= 5, `${seen.size} members were read`);
  const items = Array.from({ length: 1_000 }, () => counted(1));
  assert.throws(() => read({ list: items.map((item) => item.value) }), /list must not have more than 3 items/);
  assert.equal(items.filter((item) => item.read.size > 0).length, 0);
  const other = counted(1_000);
  assert.throws(() => read({ closed: other.value }), /closed/);
  assert.ok(other.read.size <= 5, `${other.read.size} members were read`);
});
