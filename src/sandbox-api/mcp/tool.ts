// What a tool of the MCP server is, how its arguments are checked and how its outcome is told.
import type { CallToolResult, Tool as ToolDescription } from "@modelcontextprotocol/server";
import type { Static, TObject } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { describeProblems } from "../../contract/input.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import type { SessionContext } from "../session-context.ts";

export type ToolCall = {
  session: SessionContext;
  /** Aborts when nobody awaits the outcome any more. */
  signal: AbortSignal;
  /** Whoever leaves says that what was begun is to end; else it goes on, as after a connection that broke. */
  leavingCancels: boolean;
  /** Takes room for large content until the answer is sent. */
  reserve(bytes: number): Promise<void>;
};

export type Tool = { description: ToolDescription; call(given: unknown, call: ToolCall): Promise<CallToolResult> };

type ToolParts<Input extends TObject> = {
  name: string;
  title: string;
  description: string;
  input: Input;
  output: TObject;
  changes: "nothing" | "something" | "anything";
  run(input: Static<Input>, call: ToolCall): Promise<object> | object;
};

export function defineTool<Input extends TObject>(parts: ToolParts<Input>): Tool {
  const { name, title, description, input, output, changes, run } = parts;
  let validator: Validator | undefined;
  return {
    description: {
      name,
      title,
      description,
      inputSchema: asJsonSchema(input),
      outputSchema: asJsonSchema(output),
      annotations: {
        readOnlyHint: changes === "nothing",
        destructiveHint: changes === "anything",
        openWorldHint: name === "processExecute",
      },
    },
    async call(given, call) {
      try {
        validator ??= Compile(input);
        return success(await run(check(validator, input, given) as Static<Input>, call));
      } catch (error) {
        return failure(error, name, call.session);
      }
    },
  };
}

type JsonSchema = ToolDescription["inputSchema"];

/** Plain JSON: what describes a schema to TypeBox alone is left out. */
function asJsonSchema(schema: TObject): JsonSchema {
  return JSON.parse(JSON.stringify(schema)) as JsonSchema;
}

/** Clients write null for an argument they leave out. */
function check(validator: Validator, schema: TObject, given: unknown): unknown {
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  const value = isObject ? Object.fromEntries(Object.entries(given).filter(([, member]) => member !== null)) : given;
  if (validator.Check(value)) return value;
  throw new AppError("invalid_request", describeProblems(validator.Errors(value), schema, "arguments"));
}

/** The same twice: as data, and as text for clients that read no data. */
function success(outcome: object): CallToolResult {
  const structuredContent = outcome as Record<string, unknown>;
  return { content: [{ type: "text", text: JSON.stringify(outcome) }], structuredContent };
}

function failure(error: unknown, tool: string, { log }: SessionContext): CallToolResult {
  const failed = toAppError(error);
  if (failed.code === "internal") log.error({ err: error, tool }, "tool failed");
  return { content: [{ type: "text", text: failed.message }], isError: true };
}
