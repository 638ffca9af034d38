// Processes of a sandbox: requests, answers and operations.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const processStatuses = ["running", "completed", "failed", "stopped", "killed"] as const;
export type ProcessStatus = (typeof processStatuses)[number];

export const processTimeoutMaxSeconds = 31_536_000;

/** Bytes that one request may write to a process. */
export const processInputMaxBytes = 8 * 1024 * 1024;
const waitForPortsMax = 64;

/** Why a process is not running any more. */
export const processCauseKinds = ["exit", "signal", "out_of_memory", "killed_by", "unknown"] as const;
export type ProcessCauseKind = (typeof processCauseKinds)[number];

/** Who ended a process that was `killed_by` somebody; `sandbox` sent it a `signal` from inside. */
export const processEnders = ["stop", "kill", "timeout", "platform", "sandbox"] as const;
export type ProcessEnder = (typeof processEnders)[number];

export const ProcessRequest = Type.Object({
  command: Type.String({ minLength: 1, maxLength: 131_000 }),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  workingDir: Type.Optional(Type.String({ maxLength: 4095 })),
  env: Type.Optional(Type.Record(Type.String(), Type.String())),
  waitForCompletion: Type.Optional(Type.Boolean()),
  timeout: Type.Optional(Type.Integer({ minimum: 0, maximum: processTimeoutMaxSeconds })),
  keepAlive: Type.Optional(Type.Boolean()),
  waitForPorts: Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), {
      maxItems: waitForPortsMax,
      description: "Answer only when the process listens on each of these ports, for more than this sandbox alone.",
    }),
  ),
  restartOnFailure: Type.Optional(
    Type.Boolean({ description: "Run the command again after it has failed, up to `maxRestarts` times." }),
  ),
  maxRestarts: Type.Optional(
    Type.Integer({ maximum: Number.MAX_SAFE_INTEGER, description: "Without limit when negative; 0 when absent." }),
  ),
  stdin: Type.Optional(Type.Boolean({ description: "Give it an input that requests write to and close." })),
});
export type ProcessRequest = Static<typeof ProcessRequest>;

const NullableString = Type.Union([Type.String(), Type.Null()]);

export const ProcessCause = Type.Object(
  {
    kind: Type.Union(processCauseKinds.map((kind) => Type.Literal(kind))),
    by: Type.Optional(Type.Union(processEnders.map((by) => Type.Literal(by)))),
    signal: Type.Optional(Type.String({ description: "Name of the signal it died of, e.g. `SIGSEGV`." })),
    processLimit: Type.Optional(
      Type.Integer({
        description:
          "While it ran, the sandbox's processes had come to this limit, at which programs cannot start another one.",
      }),
    ),
    message: Type.String(),
  },
  { description: "Why it is not running any more." },
);
export type ProcessCause = {
  kind: ProcessCauseKind;
  by?: ProcessEnder;
  signal?: string;
  processLimit?: number;
  message: string;
};

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
  cause: Type.Union([ProcessCause, Type.Null()]),
});
export type ProcessResponse = Omit<Static<typeof ProcessResponse>, "status" | "cause"> & {
  status: ProcessStatus;
  cause: ProcessCause | null;
};

export const ProcessLogs = Type.Object({ stdout: Type.String(), stderr: Type.String(), logs: Type.String() });
export type ProcessLogs = Static<typeof ProcessLogs>;

const ByIdentifier = Type.Object({ identifier: Type.String({ minLength: 1 }) });
const Message = Type.Object({ message: Type.String() });
const Offset = Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const scope = "sandboxes:control";

export const startProcess = endpoint({
  method: "POST",
  path: "/process",
  summary: "Start a process; with `Accept: text/event-stream` the answer streams its output as NDJSON",
  tag: "process",
  scope,
  headers: Type.Object({
    "idempotency-key": Type.Optional(
      Type.String({
        maxLength: 255,
        description: "A request that is repeated with its key answers about the process that the first one started.",
      }),
    ),
  }),
  body: ProcessRequest,
  response: ProcessResponse,
  responseHeaders: { "idempotent-replayed": "`true` when an earlier request with this key had started the process." },
  errors: [422, 503],
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
  summary:
    "Stream the output of a process until it ends, from its beginning or from how much of each stream one has: as prefixed lines of text, " +
    "or with `Accept: application/x-ndjson` as events with their offsets",
  tag: "process",
  scope,
  params: ByIdentifier,
  query: Type.Object({ stdoutOffset: Offset, stderrOffset: Offset }),
  response: Type.String(),
  errors: [416],
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

export const writeProcessInput = endpoint({
  method: "POST",
  path: "/process/:identifier/stdin",
  summary: "Write the request's raw body to the input of a process that was started with `stdin`",
  tag: "process",
  scope,
  params: ByIdentifier,
  query: Type.Object({ offset: Offset }),
  response: Type.Object({ message: Type.String(), taken: Type.Integer() }),
  errors: [409, 422, 503],
});

export const closeProcessInput = endpoint({
  method: "DELETE",
  path: "/process/:identifier/stdin",
  summary: "Close the input of a process: it reads its end",
  tag: "process",
  scope,
  params: ByIdentifier,
  response: Message,
  errors: [409, 503],
});
