// The Model Context Protocol of a sandbox: streamable HTTP without sessions, each message answered by one JSON body.
import { Type } from "typebox";
import { endpoint } from "../endpoint.ts";

/** Bytes of one message, or of several in an array; a file's content travels in one. */
export const mcpBodyMaxBytes = 8 * 1024 * 1024;
/** Messages in an array, which clients of the protocol's early revisions may send. */
export const mcpBatchMax = 16;

export const callMcp = endpoint({
  method: "POST",
  path: "/mcp",
  summary: "Speak the Model Context Protocol: processes, files and search as tools of a language model",
  tag: "mcp",
  scope: "sandboxes:control",
  /** JSON-RPC 2.0, which the protocol's own schemas describe. */
  response: Type.Unknown(),
  errors: [415],
});
