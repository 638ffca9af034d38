// How the doctor looks at a machine. Nothing here changes it; checks get this as a value, so that tests can describe any machine.
import { accessSync, constants, existsSync, readFileSync, statfsSync, statSync } from "node:fs";
import { type ClientRequest, request } from "node:http";
import { request as requestOverTls } from "node:https";
import { createServer } from "node:net";
import { release } from "node:os";
import { dirname, join } from "node:path";
import { runCommand } from "../../core/run-command.ts";

/** `foreign` is no address of this machine; `forbidden` one that this user may not answer on. */
export type AddressUser = "free" | "catnap" | "other" | "foreign" | "forbidden";

export type ProgramRun = { output: string } | { failure: string };

export type Probes = {
  userId: number;
  nodeVersion: string;
  kernelRelease: string;
  /** Undefined when it does not exist or cannot be read. */
  readFile(path: string): string | undefined;
  stat(path: string): { mode: number; uid: number; isDirectory: boolean } | undefined;
  isExecutable(path: string): boolean;
  findProgram(name: string): string | undefined;
  /** Of the path, or of where it would be made. */
  isWritable(path: string): boolean;
  /** `failure` is its last words. */
  runProgram(program: string, args: readonly string[], options?: { input?: string }): Promise<ProgramRun>;
  /** Of the file system that holds the path, or would. */
  freeDiskBytes(path: string): number | undefined;
  addressUser(host: string, port: number): Promise<AddressUser>;
};

const programDirs = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const answerTimeoutMs = 2_000;
const outputMaxBytes = 16 << 20;

export function createProbes(env: Readonly<Record<string, string | undefined>>, userId: number): Probes {
  const dirs = [...(env.PATH ?? "").split(":").filter((dir) => dir.startsWith("/")), ...programDirs];
  return {
    userId,
    nodeVersion: process.versions.node,
    kernelRelease: release(),
    readFile: (path) => optional(() => readFileSync(path, "utf8")),
    stat: (path) =>
      optional(() => {
        const info = statSync(path);
        return { mode: info.mode & 0o7777, uid: info.uid, isDirectory: info.isDirectory() };
      }),
    isExecutable,
    findProgram: (name) => dirs.map((dir) => join(dir, name)).find(isExecutable),
    isWritable,
    runProgram: (program, args, { input } = {}) =>
      runCommand(program, args, { input, timeoutMs: 10_000, outputMaxBytes }).then(
        ({ stdout }): ProgramRun => ({ output: stdout }),
        (error: Error): ProgramRun => ({ failure: error.message }),
      ),
    freeDiskBytes,
    addressUser,
  };
}

function isExecutable(path: string): boolean {
  return (
    optional(() => {
      accessSync(path, constants.X_OK);
      return statSync(path).isFile();
    }) ?? false
  );
}

function isWritable(path: string): boolean {
  let dir = path;
  while (!existsSync(dir) && dirname(dir) !== dir) dir = dirname(dir);
  return (
    optional(() => {
      accessSync(dir, constants.W_OK | constants.X_OK);
      return statSync(dir).isDirectory();
    }) ?? false
  );
}

function freeDiskBytes(path: string): number | undefined {
  for (let dir = path; ; dir = dirname(dir)) {
    const info = optional(() => statfsSync(dir));
    if (info !== undefined) return info.bavail * info.bsize;
    if (dir === "/" || dir === ".") return undefined;
  }
}

async function addressUser(host: string, port: number): Promise<AddressUser> {
  const failure = await tryListening(host, port);
  if (failure === undefined) return "free";
  if (failure === "EACCES") return "forbidden";
  return failure === "EADDRINUSE" ? whoAnswers(host, port) : "foreign";
}

/** A catnap is known by the way it refuses a request without a key, in the clear or, when it has a certificate, over TLS. */
async function whoAnswers(host: string, port: number): Promise<AddressUser> {
  // Of the whole answer: a program that says a little now and then would be waited for without end.
  const signal = (): AbortSignal => AbortSignal.timeout(answerTimeoutMs);
  const asked = { host, port, path: "/v0/sandboxes", agent: false };
  const isCatnap =
    (await refusesLikeCatnap(request({ ...asked, signal: signal() }))) ||
    // Whoever it is, nothing is said to it that is a secret.
    (await refusesLikeCatnap(requestOverTls({ ...asked, signal: signal(), rejectUnauthorized: false })));
  return isCatnap ? "catnap" : "other";
}

function refusesLikeCatnap(asked: ClientRequest): Promise<boolean> {
  return new Promise((resolve) => {
    asked.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text = (text + chunk).slice(0, 4_096);
      });
      response.on("close", () => resolve(response.statusCode === 401 && isErrorBody(text)));
    });
    asked.on("error", () => resolve(false));
    asked.end();
  });
}

/** Why nobody could listen there, as a code of the system. */
function tryListening(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code ?? "unknown"));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

function isErrorBody(text: string): boolean {
  const body = optional(() => JSON.parse(text) as { error?: unknown; code?: unknown });
  return typeof body?.error === "string" && body.code === 401;
}

function optional<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
