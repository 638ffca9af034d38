// Failures of the guest: those the kernel inside named by an errno, and those of a guest that breaks the protocol.
import { constants } from "node:os";
import { AppError, type ErrorCode } from "../../core/errors.ts";

/** Thrown where bytes of a guest make no sense. Whoever owns the connection closes it: nothing after them can be believed. */
export class GuestProtocolError extends Error {
  override readonly name = "GuestProtocolError";
}

const errnoNames = new Map<number, string>();
// EAGAIN and EWOULDBLOCK, EOPNOTSUPP and ENOTSUP share a number; the first of each is the usual name.
const preferred = ["EAGAIN", "EOPNOTSUPP"] as const;
for (const name of preferred) errnoNames.set(constants.errno[name], name);
for (const [name, number] of Object.entries(constants.errno)) {
  if (!errnoNames.has(number)) errnoNames.set(number, name);
}

export function errnoName(errno: number): string {
  return errnoNames.get(errno) ?? `E${errno}`;
}

const messages: Readonly<Record<string, string>> = {
  ENOENT: "no such file or directory",
  EEXIST: "it exists already",
  EACCES: "permission denied",
  EPERM: "operation not permitted",
  EISDIR: "it is a directory",
  ENOTDIR: "a part of the path is not a directory",
  ENOTEMPTY: "the directory is not empty",
  ENOSPC: "no space left on the device",
  EDQUOT: "the disk quota is exceeded",
  EROFS: "the file system is read-only",
  ELOOP: "too many symbolic links",
  ENAMETOOLONG: "the name is too long",
  EINVAL: "it is not a regular file or the request is not valid",
  EBUSY: "it is in use",
  EOVERFLOW: "there are too many entries",
  E2BIG: "the arguments and environment are too long",
  ENOEXEC: "it is not an executable format",
  EAGAIN: "a limit on processes or connections is reached",
  ENOMEM: "the sandbox is out of memory",
  ESRCH: "no such process",
  EFBIG: "the file is too large",
  EPIPE: "nobody reads it any more",
  EBADF: "it was started without one",
  ENOTTY: "it is no terminal",
  ECONNREFUSED: "nothing listens",
};

/** The error for an errno the guest answered with; `subject` is what the caller named, such as a path. */
export function errnoError(code: ErrorCode, errno: number, operation: string, subject: string): AppError {
  const name = errnoName(errno);
  return new AppError(code, `${operation} ${subject}: ${messages[name] ?? name}`, { details: { errno: name } });
}

export function fileError(errno: number, operation: string, path: string): AppError {
  const name = errnoName(errno);
  const code = name === "ENOENT" ? "not_found" : name === "EEXIST" ? "already_exists" : "unprocessable";
  return errnoError(code, errno, operation, path);
}

export function unavailable(reason: string, cause?: unknown): AppError {
  return new AppError("unavailable", `The sandbox's init is not reachable: ${reason}.`, { cause });
}

/** An upgrade of the init that did not happen, with the step that ended it. */
export function upgradeError(step: "validate" | "replace", reason: string): AppError {
  const message = `The init's new binary was refused: ${reason}. The sandbox goes on with the one it has.`;
  return new AppError("unprocessable", message, { details: { step } });
}

/** From the guest's own step. */
export function failedUpgrade(step: string, value: number): AppError {
  switch (step) {
    case "busy":
      return new AppError("conflict", "Another upgrade of the init is under way.", { details: { step: "validate" } });
    case "exec":
      return upgradeError("validate", `the kernel does not run it (${errnoName(value)})`);
    case "exit":
      return upgradeError("validate", `it ended with code ${value} when it was tried out`);
    case "signal":
      return upgradeError("validate", `it was ended by signal ${value} when it was tried out`);
    case "deadline":
      return upgradeError("validate", "it did not answer in time when it was tried out");
    case "answer":
      return upgradeError("validate", "it did not answer as an init when it was tried out");
    case "binary":
      return upgradeError("validate", `it did not arrive whole (${errnoName(value)})`);
    default:
      return upgradeError("replace", `${step} failed (${errnoName(value)})`);
  }
}
