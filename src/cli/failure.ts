// How a command ends when it cannot do what was asked: an exit code, what happened, and the way out.

/** Exit codes, also printed by `catnap --help`. `exec` and `run` use 125 for every failure that is not the command's own. */
export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  unauthorized: 4,
  unreachable: 5,
  timedOut: 124,
  infrastructure: 125,
  interrupted: 130,
  brokenPipe: 141,
} as const;

export type FailureKind =
  | "failure"
  | "usage"
  | "notFound"
  | "unauthorized"
  | "unreachable"
  | "timedOut"
  | "infrastructure"
  | "interrupted"
  | "brokenPipe";

export type FailureOptions = {
  /** What the person can do about it: a sentence or a command. */
  remedy?: string;
  cause?: unknown;
  /** The HTTP status a server answered with, when it was one. */
  status?: number;
  /** The server's own stable code, e.g. `INVALID_IMAGE`. */
  code?: string;
};

export class CliFailure extends Error {
  override readonly name = "CliFailure";
  readonly kind: FailureKind;
  readonly remedy: string | undefined;
  readonly status: number | undefined;
  readonly code: string | undefined;

  constructor(kind: FailureKind, message: string, options: FailureOptions = {}) {
    super(message, { cause: options.cause });
    this.kind = kind;
    this.remedy = options.remedy;
    this.status = options.status;
    this.code = options.code;
  }

  get exitCode(): number {
    return exitCodes[this.kind];
  }
}

/** A wrong way to call the program. */
export function usageFailure(message: string, remedy?: string): CliFailure {
  return new CliFailure("usage", message, { remedy });
}

/** Text from a server, made harmless for a terminal: control characters become a visible replacement. */
export function printable(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}
