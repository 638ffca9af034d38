// Processes as tools: the operations of /process, with waits that end before a client's patience does.
import { Type } from "typebox";
import { ProcessRequest, ProcessResponse, processTimeoutMaxSeconds } from "../../contract/sandbox-api/process.ts";
import { AppError } from "../../core/errors.ts";
import { inlineTailBytes, readTail } from "../processes/output-tail.ts";
import type { Process } from "../processes/process.ts";
import { processAnswer, processAnswerWithTail } from "../processes/process-answer.ts";
import { describeStartFailure, toStartRequest } from "../processes/start-request.ts";
import { waitAsAsked } from "../processes/wait.ts";
import { defineTool, type ToolCall } from "./tool.ts";

const timeoutDefaultSeconds = 30;
/** Clients and what stands between give up after about a minute without an answer. */
const waitMaxSeconds = 50;
const listedMax = 200;
const listedCommandMax = 1_000;

const ByIdentifier = Type.Object(
  { identifier: Type.String({ minLength: 1, maxLength: 255, description: "The process' pid or its name." }) },
  { additionalProperties: false },
);

const Started = Type.Object({
  pid: Type.String(),
  name: Type.String(),
  status: Type.String(),
  exitCode: ProcessResponse.properties.exitCode,
  logs: Type.Optional(Type.String()),
  message: Type.String(),
  pollRequired: Type.Boolean({ description: "It still runs: ask again with processGet and the pid." }),
});

const { properties: requested } = ProcessRequest;

const ExecuteInput = Type.Object(
  {
    ...requested,
    workingDir: Type.Optional(Type.String({ maxLength: 4_095, description: "Where it starts. Default /." })),
    waitForCompletion: Type.Optional(
      Type.Boolean({ description: `Answer when it has ended, or after ${waitMaxSeconds} seconds. Default false.` }),
    ),
    timeout: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: processTimeoutMaxSeconds,
        description: `Seconds to wait for its end, default ${timeoutDefaultSeconds}, 0 as long as possible; it runs on afterwards. With keepAlive: seconds until it is killed.`,
      }),
    ),
    includeLogs: Type.Optional(
      Type.Boolean({ description: "Answer with the end of its output. Default: when waiting." }),
    ),
  },
  { additionalProperties: false },
);

export const processTools = [
  defineTool({
    name: "processesList",
    title: "List processes",
    description: `List the processes that run or have ended in the sandbox, oldest first; of many the newest ${listedMax}.`,
    input: Type.Object({}, { additionalProperties: false }),
    output: Type.Object({ processes: Type.Array(ProcessResponse), total: Type.Integer() }),
    changes: "nothing",
    run(_input, { session }) {
      const all = session.processes.list();
      const processes = all.slice(-listedMax).map((process) => {
        const answer = processAnswer(process, undefined);
        return { ...answer, command: answer.command.slice(0, listedCommandMax) };
      });
      return { processes, total: all.length };
    },
  }),
  defineTool({
    name: "processExecute",
    title: "Run a command",
    description: "Run a command in the sandbox's shell, and wait for its end when asked to.",
    input: ExecuteInput,
    output: Started,
    changes: "anything",
    async run({ includeLogs, ...input }, call) {
      const timeout = input.timeout ?? (input.keepAlive === true ? undefined : timeoutDefaultSeconds);
      const { session } = call;
      const start = toStartRequest({ ...input, workingDir: input.workingDir ?? "/", timeout }, session.machine);
      const { process } = await session.processes.start(start).catch(async (error: unknown) => {
        throw await describeStartFailure(error, start.workingDir, session.machine);
      });
      const isOver = await waitAtMost(input.keepAlive === true ? 0 : (timeout ?? 0), process, input, call);
      return describe(process, { isOver, withLogs: includeLogs ?? input.waitForCompletion === true });
    },
  }),
  defineTool({
    name: "processGet",
    title: "Look at a process",
    description: "Get a process by its pid or name, with its exit code and the end of its output.",
    input: ByIdentifier,
    output: ProcessResponse,
    changes: "nothing",
    run: ({ identifier }, { session }) => processAnswerWithTail(session.processes.get(identifier), inlineTailBytes),
  }),
  defineTool({
    name: "processGetLogs",
    title: "Read the output of a process",
    description: `Get the newest ${inlineTailBytes / 1024} KiB of what a process has written.`,
    input: ByIdentifier,
    output: Type.Object({ logs: Type.String() }),
    changes: "nothing",
    async run({ identifier }, { session }) {
      const process = session.processes.get(identifier);
      const { logs } = await readTail(process.journal, inlineTailBytes, process.record.name);
      return { logs };
    },
  }),
  ...endTools(),
];

function endTools() {
  const output = Type.Object({ status: Type.String() });
  return [
    defineTool({
      name: "processStop",
      title: "Stop a process",
      description: "Ask a process and its children to end (SIGTERM).",
      input: ByIdentifier,
      output,
      changes: "anything",
      async run({ identifier }, { session }) {
        await session.processes.get(identifier).end("stop");
        return { status: "stopped" };
      },
    }),
    defineTool({
      name: "processKill",
      title: "Kill a process",
      description: "Kill a process and its children at once (SIGKILL).",
      input: ByIdentifier,
      output,
      changes: "anything",
      async run({ identifier }, { session }) {
        await session.processes.get(identifier).end("kill");
        return { status: "killed" };
      },
    }),
  ];
}

/** Whether what the input waits for has come before the time was over. */
async function waitAtMost(seconds: number, process: Process, input: ProcessRequest, call: ToolCall): Promise<boolean> {
  const waitSeconds = seconds === 0 ? waitMaxSeconds : Math.min(seconds, waitMaxSeconds);
  const deadline = AbortSignal.timeout(waitSeconds * 1_000);
  const gone = AbortSignal.any([call.signal, deadline]);
  try {
    // The bound is the signal's alone.
    await waitAsAsked(process, { ...input, keepAlive: true, timeout: 0 }, { machine: call.session.machine, gone });
    return true;
  } catch (error) {
    if (call.signal.aborted) {
      if (call.leavingCancels && input.keepAlive !== true) await process.end("stop").catch(() => undefined);
      throw new AppError("unavailable", "Nobody awaits the outcome any more.", { cause: error });
    }
    if (deadline.aborted) return false;
    throw error;
  }
}

async function describe(process: Process, { isOver, withLogs }: { isOver: boolean; withLogs: boolean }) {
  const { pid, name, status, exitCode, logs } = await processAnswerWithTail(process, inlineTailBytes);
  const isRunning = status === "running";
  const running = `It runs; ask for its end with processGet and the pid ${pid}.`;
  return {
    pid,
    name,
    status,
    exitCode,
    ...(withLogs ? { logs: logs ?? "" } : {}),
    message: isRunning ? running : `It has ended: ${status}.`,
    pollRequired: isRunning && !isOver,
  };
}
