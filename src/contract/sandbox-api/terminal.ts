// A shell on a terminal inside a sandbox: a page for browsers, and the WebSocket it speaks over.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

/** Of what a terminal has shown, the end is shown again to who connects. */
export const terminalReplayBytes = 100 * 1024;
/** Bytes of one message from a client. */
export const terminalFrameMaxBytes = 256 * 1024;
export const terminalSizeMax = 1_000;

const size = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: terminalSizeMax, description }));

export const TerminalQuery = Type.Object({
  cols: size("Columns. Default 80, or what the session has."),
  rows: size("Rows. Default 24, or what the session has."),
  shell: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: "Program of a new session." })),
  workingDir: Type.Optional(Type.String({ maxLength: 4_095, description: "Where a new session starts." })),
  sessionId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description: "Connections with the same one share a shell. Default `default`.",
    }),
  ),
});
export type TerminalQuery = Static<typeof TerminalQuery>;

/** What a client may send; the answers are `output` and `error`, the latter with `exitCode` when the shell has ended. */
export const TerminalMessage = Type.Object({
  type: Type.Union([Type.Literal("input"), Type.Literal("resize")]),
  data: Type.Optional(Type.String()),
  cols: Type.Optional(Type.Integer({ minimum: 1, maximum: terminalSizeMax })),
  rows: Type.Optional(Type.Integer({ minimum: 1, maximum: terminalSizeMax })),
});

const tag = "terminal";
const scope = "sandboxes:control";

export const getTerminal = endpoint({
  method: "GET",
  path: "/terminal",
  summary: "A page with a shell, for browsers",
  tag,
  scope,
  response: Type.String(),
});

export const openTerminal = endpoint({
  method: "GET",
  path: "/terminal/ws",
  summary:
    "Open a WebSocket to a shell: JSON messages `{type, data, cols, rows}` of the types input, output, resize and error",
  tag,
  scope,
  query: TerminalQuery,
  response: Type.Unknown(),
});
