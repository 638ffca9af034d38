// How the doctor looks at a machine. Nothing here changes it; checks get this as a value, so that tests can describe any machine.
import { accessSync, constants, readFileSync, statfsSync, statSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { runCommand } from "../../core/run-command.ts";

export type PortUser = "free" | "catnap" | "other";

export type Probes = {
  userId: number;
  nodeVersion: string;
  /** Undefined when it does not exist or cannot be read. */
  readFile(path: string): string | undefined;
  stat(path: string): { mode: number; uid: number; isDirectory: boolean } | undefined;
  isExecutable(path: string): boolean;
  findProgram(name: string): string | undefined;
  /** Undefined when it exits with 0, else its last words. */
  tryProgram(program: string, args: readonly string[]): Promise<string | undefined>;
  /** Of the file system that holds the path, or would. */
  freeDiskBytes(path: string): number | undefined;
  portUser(host: string, port: number): Promise<PortUser>;
};

const programDirs = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const answerTimeoutMs = 2_000;

export function createProbes(env: Readonly<Record<string, string | undefined>>, userId: number): Probes {
  const dirs = [...(env.PATH ?? "").split(":").filter((dir) => dir.startsWith("/")), ...programDirs];
  return {
    userId,
    nodeVersion: process.versions.node,
    readFile: (path) => optional(() => readFileSync(path, "utf8")),
    stat: (path) =>
      optional(() => {
        const info = statSync(path);
        return { mode: info.mode & 0o7777, uid: info.uid, isDirectory: info.isDirectory() };
      }),
    isExecutable,
    findProgram: (name) => dirs.map((dir) => join(dir, name)).find(isExecutable),
    tryProgram: (program, args) =>
      runCommand(program, args, { timeoutMs: 10_000 }).then(
        () => undefined,
        (error: Error) => error.message,
      ),
    freeDiskBytes,
    portUser,
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

function freeDiskBytes(path: string): number | undefined {
  for (let dir = path; ; dir = dirname(dir)) {
    const info = optional(() => statfsSync(dir));
    if (info !== undefined) return info.bavail * info.bsize;
    if (dir === "/" || dir === ".") return undefined;
  }
}

/** A catnap is known by the way it refuses a request without a key. */
async function portUser(host: string, port: number): Promise<PortUser> {
  if (!(await accepts(host, port))) return "free";
  return new Promise((resolve) => {
    const asked = request({ host, port, path: "/v0/sandboxes", timeout: answerTimeoutMs, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text = (text + chunk).slice(0, 4_096);
      });
      response.on("close", () => resolve(response.statusCode === 401 && isErrorBody(text) ? "catnap" : "other"));
    });
    asked.on("timeout", () => asked.destroy());
    asked.on("error", () => resolve("other"));
    asked.end();
  });
}

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: answerTimeoutMs });
    const settle = (value: boolean): void => {
      socket.destroy();
      resolve(value);
    };
    socket.on("connect", () => settle(true));
    socket.on("error", () => settle(false));
    socket.on("timeout", () => settle(false));
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
