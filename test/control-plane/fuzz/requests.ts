// Requests of every declared operation, drawn from its own declaration: valid ones, and ones broken in a chosen way.
import fc from "fast-check";
import type { Document } from "../../../src/contract/openapi.ts";
import type { Operation } from "../../../src/contract/operations.ts";
import { mutated, odd, type Schema, type Schemas, valid } from "./arbitrary.ts";

export type FuzzRequest = {
  operationId: string;
  method: string;
  /** As it goes on the wire. */
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
};

/** Few, so that requests meet what others made. */
const names = ["a", "bb", "box-1", "c-3-p-0", "main", "x".repeat(49)];

const name = fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...names) }, { weight: 1, arbitrary: fc.string() });

/** Characters that a header's value may have. */
const headerText = fc.string({ maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e]/g, "?"));

export function requestsOf(operations: readonly Operation[], document: Document): fc.Arbitrary<FuzzRequest> {
  const schemas = plain(document.components.schemas) as Schemas;
  return fc.oneof(...operations.map((operation) => requestOf(operation, schemas)));
}

function requestOf(operation: Operation, schemas: Schemas): fc.Arbitrary<FuzzRequest> {
  const body = operation.body === undefined ? fc.constant(undefined) : bodyOf(plain(operation.body), schemas);
  const base = fc.record({
    path: pathOf(operation.path),
    query: operation.query === undefined ? fc.constant("") : queryOf(plain(operation.query), schemas),
    headers: headersOf(operation),
    body,
  });
  return base.map(({ path, query, headers, body: text }) => ({
    operationId: operation.operationId,
    method: operation.method,
    path: `/v0${path}${query}`,
    headers: { ...(text !== undefined && { "content-type": "application/json" }), ...headers },
    body: text,
  }));
}

function bodyOf(schema: Schema, schemas: Schemas): fc.Arbitrary<string | undefined> {
  const right = valid(schema, schemas).chain((value) => name.map((text) => withName(value, text)));
  const wrong = right.chain((value) => mutated(value));
  const text = (value: unknown): string => JSON.stringify(value) ?? "null";
  return fc.oneof(
    { weight: 5, arbitrary: right.map(text) },
    { weight: 4, arbitrary: wrong.map(text) },
    { weight: 1, arbitrary: odd.map(text) },
    {
      weight: 1,
      arbitrary: fc.tuple(right.map(text), fc.nat()).map(([json, at]) => json.slice(0, at % (json.length + 1))),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(undefined, "", "{", "[".repeat(5_000), '{"a":1,"a":2}', "\ufeff{}", "NaN"),
    },
  );
}

/** Names the resource, so that what is made can be met again. */
function withName(value: unknown, text: string): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { metadata } = value as { metadata?: unknown };
  if (typeof metadata === "object" && metadata !== null && "name" in metadata) metadata.name = text;
  return value;
}

function pathOf(path: string): fc.Arbitrary<string> {
  const segments = path.split("/").map((segment) => {
    if (!segment.startsWith(":")) return fc.constant(segment);
    return fc.oneof(
      { weight: 6, arbitrary: name.map(encode) },
      {
        weight: 1,
        arbitrary: fc.constantFrom("%00", "%2e%2e", "%2F", "%zz", "%", "..", "%f0%28%8c%28", "a".repeat(600)),
      },
      { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 30 }).map(encode) },
    );
  });
  return fc.tuple(...segments).map((parts) => parts.join("/"));
}

function queryOf(schema: Schema, schemas: Schemas): fc.Arbitrary<string> {
  const parameter = (key: string, member: Schema): fc.Arbitrary<string> =>
    fc
      .oneof({ weight: 3, arbitrary: valid(member, schemas).map(String) }, { weight: 1, arbitrary: odd.map(String) })
      .map((value) => `${encode(key)}=${encode(value)}`);
  const members = Object.entries(schema.properties ?? {}).map(([key, member]) =>
    fc.option(parameter(key, member), { nil: "" }),
  );
  return fc.tuple(...members).map((parts) => {
    const given = parts.filter((part) => part !== "");
    return given.length === 0 ? "" : `?${given.join("&")}`;
  });
}

function headersOf({ operationId }: Operation): fc.Arbitrary<Record<string, string>> {
  const version = fc.constantFrom("2026-04-16", "2026-04-28", "1999-01-01", "x");
  return (
    fc
      .record(
        {
          "blaxel-version": version,
          "x-blaxel-workspace": fc.constantFrom("main", "main", "main", "elsewhere", "../x", ""),
          "idempotency-key":
            operationId === "createSandbox" ? fc.constantFrom("k1", "k2", "", "\t", "k".repeat(300)) : headerText,
          "content-type": fc.constantFrom(
            "application/json",
            "application/json; charset=utf-8",
            "text/plain",
            "multipart/form-data",
            "x",
          ),
          "x-request-id": headerText,
        },
        { requiredKeys: [] },
      )
      // Most requests carry none of them, as most clients do.
      .chain((headers) => fc.nat(3).map((choice) => (choice === 0 ? headers : {})))
  );
}

/** Lone surrogates have no encoding; they are replaced as clients do. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Schemas as documents show them. */
function plain(schema: unknown): Schema {
  return JSON.parse(JSON.stringify(schema));
}
