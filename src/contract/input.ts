// Reads what a caller sent by its schema: keeps declared members, drops unknown ones and nulls, and says which field breaks which rule.
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import type { TLocalizedValidationError } from "typebox/error";
import { AppError } from "../core/errors.ts";

export type InputPart = "body" | "query" | "params" | "arguments";

/** What a part is called as a whole, and what stands before the name of one of its fields. */
const partNames: Record<InputPart, { whole: string; prefix: string }> = {
  body: { whole: "the body", prefix: "" },
  query: { whole: "the query", prefix: "query parameter " },
  params: { whole: "the path", prefix: "path parameter " },
  arguments: { whole: "the arguments", prefix: "argument " },
};

const problemsShownMax = 5;
/** Keys are the caller's and may be long. */
const fieldShownMax = 200;

type SchemaNode = {
  type?: string;
  properties?: Record<string, SchemaNode>;
  items?: SchemaNode;
  additionalProperties?: unknown;
  maxItems?: number;
  maxProperties?: number;
  rule?: string;
};

/** A reader for one part of a request. It throws `invalid_request`, or `not_found` for a path that names nothing. */
export function compileInput<Schema extends TSchema>(
  schema: Schema,
  part: InputPart,
): (value: unknown) => Static<Schema> {
  const validator = Compile(schema);
  const pick = part === "body" ? pickDeclared : readTexts;
  return (value) => {
    const input = pick(schema as SchemaNode, value ?? (part === "body" ? undefined : {}));
    if (validator.Check(input)) return input as Static<Schema>;
    if (part === "params") throw new AppError("not_found", "There is nothing at this path.");
    throw new AppError("invalid_request", describeProblems(validator.Errors(input), schema, part));
  };
}

/**
 * The walk follows the schema, so that hostile nesting in members nobody declared costs nothing. Of what is more than a schema allows it takes
 * one too many: enough to be refused, and the rest is not looked at.
 */
function pickDeclared(schema: SchemaNode, value: unknown): unknown {
  if (schema.type === "array" && Array.isArray(value)) {
    const items = value.slice(0, (schema.maxItems ?? Number.POSITIVE_INFINITY) + 1);
    return schema.items === undefined ? items : items.map((item) => pickDeclared(schema.items!, item));
  }
  if (schema.type !== "object" || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const given = value as Record<string, unknown>;
  const picked: Record<string, unknown> = {};
  if (schema.properties === undefined || schema.additionalProperties === false) {
    let left = countAllowed(schema) + 1;
    for (const key in given) {
      if (left === 0) break;
      if (!Object.hasOwn(given, key) || given[key] === null) continue;
      define(picked, key, given[key]);
      left--;
    }
  }
  for (const [key, memberSchema] of Object.entries(schema.properties ?? {})) {
    if (!Object.hasOwn(given, key) || given[key] === null) continue;
    define(picked, key, pickDeclared(memberSchema, given[key]));
  }
  return picked;
}

/** How many members an object may have that has no unknown ones, or a map. */
function countAllowed({ properties, maxProperties = Number.POSITIVE_INFINITY }: SchemaNode): number {
  return properties === undefined ? maxProperties : Object.keys(properties).length;
}

/** Plain assignment would run the setter of `__proto__`. */
function define(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
}

/** Query and path parameters are texts: those declared as booleans or integers are read as such. */
function readTexts(schema: SchemaNode, value: unknown): unknown {
  const given = value as Record<string, unknown>;
  const read: Record<string, unknown> = {};
  for (const [key, { type }] of Object.entries(schema.properties ?? {})) {
    const text = given[key];
    if (text === undefined || text === "") continue;
    if (type === "boolean" && (text === "true" || text === "false")) read[key] = text === "true";
    else if (type === "integer" && typeof text === "string" && /^-?\d{1,15}$/.test(text)) read[key] = Number(text);
    else read[key] = text;
  }
  return read;
}

/** What is wrong with a part of a request, field by field. */
export function describeProblems(
  errors: readonly TLocalizedValidationError[],
  schema: TSchema,
  part: InputPart,
): string {
  return (
    errors
      // A member that a map must not have is reported twice: as a whole by `additionalProperties`, and by this.
      .filter(({ keyword }) => keyword !== "boolean")
      .flatMap((error) => describeProblem(error, schema, part))
      .slice(0, problemsShownMax)
      .join("; ")
  );
}

function describeProblem(error: TLocalizedValidationError, schema: TSchema, part: InputPart): string[] {
  const field = nameField(error.instancePath, part);
  if (error.keyword === "required") {
    if (error.instancePath !== "") return error.params.requiredProperties.map((name) => `${field}.${name} is required`);
    return error.params.requiredProperties.map((name) => `${nameField(`/${name}`, part)} is required`);
  }
  if (error.keyword === "enum") return [`${field} must be one of ${error.params.allowedValues.join(", ")}`];
  if (error.keyword === "minimum" || error.keyword === "maximum") {
    const bound = error.keyword === "minimum" ? "at least" : "at most";
    return [`${field} must be ${bound} ${error.params.limit}`];
  }
  if (error.keyword === "type") return [`${field} must be ${describeType(error.params.type)}`];
  const rule = findNode(schema, error.schemaPath)?.rule;
  if (rule !== undefined && (error.keyword === "pattern" || error.keyword === "additionalProperties")) {
    return [`${field} must be ${rule}`];
  }
  return [`${field} ${error.message}`];
}

function describeType(type: string | readonly string[]): string {
  return [type]
    .flat()
    .map((name) => (name === "null" ? name : `${/^[aeiou]/.test(name) ? "an" : "a"} ${name}`))
    .join(" or ");
}

/** `/spec/runtime/envs/0/name` becomes `spec.runtime.envs[0].name`. */
function nameField(instancePath: string, part: InputPart): string {
  const { whole, prefix } = partNames[part];
  if (instancePath === "") return whole;
  const path = instancePath
    .slice(1)
    .replaceAll("/", ".")
    .replaceAll(/\.(\d+)(?=\.|$)/g, "[$1]");
  const shown = path.slice(0, fieldShownMax);
  return `${prefix}${shown}`;
}

function findNode(schema: TSchema, schemaPath: string): SchemaNode | undefined {
  let node: unknown = schema;
  for (const segment of schemaPath.split("/").slice(1)) node = (node as Record<string, unknown> | undefined)?.[segment];
  return node as SchemaNode | undefined;
}
