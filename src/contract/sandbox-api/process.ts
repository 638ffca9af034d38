// Processes of a sandbox: requests, answers and operations.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const processStatuses = ["running", "completed", "failed", "stopped", "killed"] as const;
export type ProcessStatus = (typeof processStatuses)[number];

export const processTimeoutMaxSeconds = 31_536_000;

export const ProcessRequest = Type.Object({
  command: Type.String({ minLength: 1, maxLength: 131_000 }),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  workingDir: Type.Optional(Type.String({ maxLength: 4095 })),
  env: Type.Optional(Type.Record(Type.String(), Type.String())),
  waitForCompletion: Type.Optional(Type.Boolean()),
  timeout: Type.Optional(Type.Integer({ minimum: 0, maximum: processTimeoutMaxSeconds })),
  keepAlive: Type.Optional(Type.Boolean()),
  waitForPorts: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }))),
  restartOnFailure: Type.Optional(Type.Boolean()),
  maxRestarts: Type.Optional(Type.Integer({ minimum: -1 })),
  stdin: Type.Optional(Type.Boolean()),
});
export type ProcessRequest = Static<typeof ProcessRequest>;

const NullableString = Type.Union([Type.String(), Type.Null()]);

/** `completedAt` and `exitCode` are null until observed; the output members are null where the answer does not carry output. */
export const ProcessResponse = Type.Object({
  pid: Type.String(),
  name: Type.String(),
  command: Type.String(),
  status: Type.Union(processStatuses.map((status) => Type.Literal(status))),
  startedAt: Type.String(),
  completedAt: NullableString,
  exitCode: Type.Union([Type.Integer(), Type.Null()]),
  workingDir: Type.String(),
  logs: NullableString,
  stdout: NullableString,
  stderr: NullableString,
  restartOnFailure: Type.Boolean(),
  maxRestarts: Type.Integer(),
  restartCount: Type.Integer(),
  keepAlive: Type.Boolean(),
  stdin: Type.Boolean(),
});
export type ProcessResponse = Omit<Static<typeof ProcessResponse>, "status"> & { status: ProcessStatus };

export const ProcessLogs = Type.Object({ stdout: Type.String(), stderr: Type.String(), logs: Type.String() });
export type ProcessLogs = Static<typeof ProcessLogs>;

const ByIdentifier = Type.Object({ identifier: Type.String({ minLength: 1 }) });
const Message = Type.Object({ message: Type.String() });
const scope = "sandboxes:control";

export const startProcess = endpoint({
  method: "POST",
  path: "/process",
  summary: "Start a process; with `Accept: text/event-stream` the answer streams its output as NDJSON",
  tag: "process",
  scope,
  body: ProcessRequest,
  response: ProcessResponse,
});

export const listProcesses = endpoint({
  method: "GET",
  path: "/process",
  summary: "List running and ended processes",
  tag: "process",
  scope,
  response: Type.Array(ProcessResponse),
});

export const getProcess = endpoint({
  method: "GET",
  path: "/process/:identifier",
  summary: "Get a process by its pid or name, with the end of its output",
  tag: "process",
  scope,
  params: ByIdentifier,
  response: ProcessResponse,
});

export const getProcessLogs = endpoint({
  method: "GET",
  path: "/process/:identifier/logs",
  summary: "Get the output of a process",
  tag: "process",
  scope,
  params: ByIdentifier,
  response: ProcessLogs,
});

export const streamProcessLogs = endpoint({
  method: "GET",
  path: "/process/:identifier/logs/stream",
  summary: "Stream the output of a process from its beginning until it ends, as prefixed lines of text",
  tag: "process",
  scope,
  params: ByIdentifier,
  response: Type.String(),
});

export const stopProcess = endpoint({
  method: "DELETE",
  path: "/process/:identifier",
  summary: "Ask a process to end (SIGTERM to its group)",
  tag: "process",
  scope,
  params: ByIdentifier,
  response: Message,
});

export const killProcess = endpoint({
  method: "DELETE",
  path: "/process/:identifier/kill",
  summary: "Kill a process and its group (SIGKILL)",
  tag: "process",
  scope,
  params: ByIdentifier,
  response: Message,
});
