// Turns the body of `POST /process` into what is run, and a refusal of the guest into the words of the API.
import type { ProcessRequest } from "../../contract/sandbox-api/process.ts";
import { AppError } from "../../core/errors.ts";
import type { Machine } from "../machine.ts";
import { resolvePath } from "../sandbox-path.ts";
import type { StartRequest } from "./new-record.ts";

const keepAliveDefaultSeconds = 600;
const environmentMaxBytes = 1024 * 1024;

export function toStartRequest(body: ProcessRequest, machine: Machine): StartRequest {
  const { environment } = machine;
  if (body.keepAlive === true && isSwitchedOn(environment.BL_DISABLE_KEEPALIVE)) {
    throw new AppError("invalid_request", "keepAlive is disabled in this sandbox by BL_DISABLE_KEEPALIVE");
  }
  const shell = environment.SHELL ?? "/bin/sh";
  const shellArgs = environment.SHELL_ARGS?.split(" ").filter((argument) => argument !== "") ?? ["-c"];
  if (body.command.includes("\0")) throw new AppError("invalid_request", "command contains a NUL byte");
  const timeoutSeconds = body.timeout ?? keepAliveDefaultSeconds;
  return {
    name: body.name,
    command: body.command,
    argv: [shell, ...shellArgs, body.command],
    workingDir: resolvePath(body.workingDir ?? "", machine),
    environment: mergeEnvironment(machine, body.env ?? {}),
    keepAlive: body.keepAlive === true,
    timeoutMs: timeoutSeconds === 0 ? undefined : timeoutSeconds * 1_000,
    stdin: body.stdin === true,
    restartsMax: body.restartOnFailure === true ? (body.maxRestarts ?? 0) : undefined,
  };
}

function isSwitchedOn(value: string | undefined): boolean {
  return value !== undefined && /^(1|true|yes|on)$/i.test(value);
}

function mergeEnvironment(machine: Machine, own: Record<string, string>): Record<string, string> {
  let bytes = 0;
  for (const [name, value] of Object.entries(own)) {
    bytes += name.length + value.length + 2;
    if (name === "" || /[=\0]/.test(name) || value.includes("\0")) {
      throw new AppError(
        "invalid_request",
        `env has a name or value that no process can be given: '${name.slice(0, 64)}'`,
      );
    }
  }
  if (bytes > environmentMaxBytes) throw new AppError("invalid_request", "env is larger than 1 MiB");
  return { HOME: machine.homeDir, ...machine.environment, ...own };
}

/** The guest says only why it could not, with an errno; a missing working directory is told apart by looking. */
export async function describeStartFailure(error: unknown, workingDir: string, machine: Machine): Promise<unknown> {
  if (!(error instanceof AppError) || error.details?.errno === undefined) return error;
  if (error.code !== "unprocessable" && error.code !== "not_found") return error;
  const info = await machine.guest.files.stat(workingDir).catch((reason: unknown) => reason);
  const isMissing = info instanceof AppError && info.code === "not_found";
  const isDirectory = typeof info === "object" && info !== null && "type" in info && info.type === "directory";
  if (isMissing || (!isDirectory && !(info instanceof Error))) {
    const message = `could not execute command: folder '${workingDir}' does not exist`;
    return new AppError("unprocessable", message, { cause: error });
  }
  return new AppError("unprocessable", `could not execute command: ${error.message}`, { cause: error });
}
