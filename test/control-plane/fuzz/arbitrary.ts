// Values that keep to a JSON Schema, and values that nearly do: what the fuzzer sends as bodies and parameters.
import fc from "fast-check";

export type Schema = {
  type?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  patternProperties?: Record<string, Schema>;
  items?: Schema;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  maxProperties?: number;
  $ref?: string;
};

export type Schemas = Readonly<Record<string, Schema>>;

const depthMax = 8;

/** Values that the schema describes. */
export function valid(schema: Schema, schemas: Schemas, depth = 0): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return valid(schemas[schema.$ref.split("/").at(-1)!]!, schemas, depth);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((each) => valid(each, schemas, depth + 1)));
  switch (schema.type) {
    case "object":
      return validObject(schema, schemas, depth);
    case "array":
      if (depth > depthMax || schema.items === undefined) return fc.constant([]);
      return fc.array(valid(schema.items, schemas, depth + 1), { maxLength: Math.min(schema.maxItems ?? 3, 3) });
    case "integer":
      return fc.integer({ min: schema.minimum ?? -1000, max: schema.maximum ?? 1_000_000 });
    case "number":
      return fc.double({ min: schema.minimum ?? -1e6, max: schema.maximum ?? 1e6, noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "string":
      return validText(schema);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

function validText({ pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<string> {
  const longest = Math.min(maxLength, 60);
  if (pattern === undefined) return fc.string({ minLength, maxLength: longest, unit: "grapheme" });
  return fc.stringMatching(new RegExp(pattern, "u"), { size: "small" }).filter((text) => text.length <= maxLength);
}

function validObject(schema: Schema, schemas: Schemas, depth: number): fc.Arbitrary<unknown> {
  const [pattern, memberSchema] = Object.entries(schema.patternProperties ?? {})[0] ?? [];
  if (pattern !== undefined) {
    if (depth > depthMax) return fc.constant({});
    const keys = validText({ pattern: pattern === "^.*$" ? "^[a-z]{1,9}$" : pattern, maxLength: 40 });
    return fc.dictionary(keys, valid(memberSchema!, schemas, depth + 1), { maxKeys: 3 });
  }
  const required = schema.required ?? [];
  const members = Object.entries(schema.properties ?? {}).filter(
    ([name]) => depth <= depthMax || required.includes(name),
  );
  const arbitraries = members.map(([name, member]) => [name, valid(member, schemas, depth + 1)] as const);
  return fc.record(Object.fromEntries(arbitraries), { requiredKeys: required });
}

/** What people and attackers put where something else belongs. */
export const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    "",
    " ",
    0,
    -1,
    1.5,
    2 ** 53,
    1e308,
    [],
    {},
    [[]],
    [null],
    "\u0000",
    "\ud800",
    "..",
    "../../etc/passwd",
    "%00",
    "__proto__",
    "constructor",
    "' or 1=1 --",
    "<script>alert(1)</script>",
    "${jndi:ldap://127.0.0.1/a}",
    "\r\nSet-Cookie: a=b",
    "💤".repeat(30),
    "a".repeat(49),
    "a".repeat(50),
    "a".repeat(10_000),
    "9".repeat(40),
    "0s",
    "15m",
    "99999999999999w",
    "2020-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "********",
  ),
  fc.string({ unit: "binary", maxLength: 80 }),
  fc.jsonValue({ maxDepth: 3 }),
);

/** The value with one of its parts replaced, removed or doubled. */
export function mutated(value: unknown): fc.Arbitrary<unknown> {
  return fc.tuple(fc.nat(), odd, fc.nat(3)).map(([choice, replacement, kind]) => {
    const copy = structuredClone(value);
    const places = placesIn(copy);
    const place = places[choice % Math.max(places.length, 1)];
    if (place === undefined) return replacement;
    const { holder, key } = place;
    if (kind === 0) delete (holder as Record<string, unknown>)[key];
    else if (kind === 1 && Array.isArray(holder)) holder.push(...holder);
    else if (kind === 2) define(holder, `${key}x`, replacement);
    else define(holder, key, replacement);
    return copy;
  });
}

type Place = { holder: object; key: string };

function placesIn(value: unknown): Place[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [{ holder: value, key }, ...placesIn(member)]);
}

/** Also for `__proto__`. */
function define(holder: object, key: string, value: unknown): void {
  Object.defineProperty(holder, key, { value, enumerable: true, writable: true, configurable: true });
}
