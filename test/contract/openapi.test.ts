// The OpenAPI document says what the declarations say, and what is checked in is what they say now.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Type from "typebox";
import { controlPlaneDocument } from "../../src/contract/control-plane-document.ts";
import { buildOpenApi, type DocumentOptions } from "../../src/contract/openapi.ts";
import { controlPlaneOperations, type Operation, sandboxOperations } from "../../src/contract/operations.ts";
import { sandboxDocument } from "../../src/contract/sandbox-document.ts";

const root = join(import.meta.dirname, "../..");
const documents = [
  {
    file: "control-plane.json",
    document: controlPlaneDocument("http://127.0.0.1:4000"),
    operations: controlPlaneOperations,
  },
  { file: "sandbox.json", document: sandboxDocument(), operations: sandboxOperations },
];

for (const { file, document, operations } of documents) {
  test(`${file} is what the declarations say (npm run openapi writes it)`, () => {
    const checkedIn = JSON.parse(readFileSync(join(root, "openapi", file), "utf8"));
    assert.deepEqual(checkedIn, JSON.parse(JSON.stringify(document)));
  });

  test(`every operation is in ${file}, with an API key and, where tokens are known, its scope`, () => {
    const hasTokens = "OAuth2" in document.components.securitySchemes;
    for (const { operationId, method, path, scope } of operations) {
      const documented = document.paths[path.replaceAll(/:([A-Za-z]+)/g, "{$1}").replace(/\/\*$/, "/{path}")]?.[
        method.toLowerCase()
      ] as { operationId: string; security: object[] };
      assert.equal(documented?.operationId, operationId);
      const wanted = hasTokens ? [{ OAuth2: [scope].flat() }, { ApiKeyAuth: [] }] : [{ ApiKeyAuth: [] }];
      assert.deepEqual(documented.security, wanted);
    }
  });

  test(`no two operations of ${file} share a name, or a method and path`, () => {
    const names = operations.map(({ operationId }) => operationId);
    const routes = operations.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, ":")}`);
    assert.equal(new Set(names).size, names.length);
    assert.equal(new Set(routes).size, routes.length);
  });

  test(`every tag of ${file} is explained`, () => {
    const { tags } = document as unknown as { tags: { name: string; description: string }[] };
    for (const { operationId, tag } of operations) {
      assert.ok(
        tags.some(({ name, description }) => name === tag && description !== ""),
        `${operationId}: nothing explains the tag ${tag}`,
      );
    }
  });

  test(`every reference of ${file} leads somewhere, and every path parameter is declared`, () => {
    const text = JSON.stringify(document);
    for (const [, name] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      assert.ok(name! in document.components.schemas, name);
    }
    for (const [path, methods] of Object.entries(document.paths)) {
      const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const operation of Object.values(methods) as { parameters: { name: string; in: string }[] }[]) {
        const declared = operation.parameters.filter((each) => each.in === "path").map(({ name }) => name);
        assert.deepEqual(declared.sort(), wanted.sort(), path);
      }
    }
  });
}

const Named = Type.Object({ id: Type.String({ pattern: "^a+$", rule: "some a" }) }, { title: "Named" });
const operation: Operation = {
  operationId: "putThing",
  method: "PUT",
  path: "/things/:thingName",
  summary: "Put it",
  tag: "things",
  scope: ["things:update", "things:get"],
  params: Type.Object({ thingName: Type.String() }),
  query: Type.Object({ force: Type.Optional(Type.Boolean({ description: "Whatever is there." })) }),
  body: Named,
  response: Type.Array(Type.Object({ named: Type.Optional(Named) })),
  responseHeaders: { "X-Next": "Where to go." },
  errors: [409],
};
const options: DocumentOptions = {
  title: "t",
  description: "d",
  server: { url: "http://x", description: "x" },
  operations: [operation],
  errorBody: Type.Object({ error: Type.String() }),
  tags: { things: "Things.", others: "Others." },
  oauth: { authorizationUrl: "http://x/a", tokenUrl: "http://x/t", scopes: ["admin"] },
};

test("a declaration becomes parameters, a body, an answer and its failures", () => {
  const { paths, components, tags } = JSON.parse(JSON.stringify(buildOpenApi(options)));
  const put = paths["/things/{thingName}"].put;
  assert.deepEqual(put.parameters, [
    { name: "thingName", in: "path", required: true, schema: { type: "string" } },
    { name: "force", in: "query", required: false, description: "Whatever is there.", schema: { type: "boolean" } },
  ]);
  assert.deepEqual(put.security, [{ OAuth2: ["things:update", "things:get"] }, { ApiKeyAuth: [] }]);
  const reference = { $ref: "#/components/schemas/Named" };
  assert.deepEqual(put.requestBody, { required: true, content: { "application/json": { schema: reference } } });
  assert.deepEqual(put.responses[200].content["application/json"].schema.items.properties.named, reference);
  assert.equal(put.responses[200].headers["X-Next"].description, "Where to go.");
  assert.deepEqual(Object.keys(put.responses), ["200", "400", "401", "403", "404", "409", "413", "415", "429", "500"]);
  assert.deepEqual(components.schemas.Named.properties.id, {
    type: "string",
    pattern: "^a+$",
    description: "Must be some a.",
  });
  assert.deepEqual(tags, [{ name: "things", description: "Things." }]);
});

test("two different schemas cannot have one title", () => {
  const other: Operation = { ...operation, operationId: "other", body: Type.Object({}, { title: "Named" }) };
  assert.throws(() => buildOpenApi({ ...options, operations: [operation, other] }), /title Named/);
});
