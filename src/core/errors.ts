// The one error class of the platform and the table of its codes with their HTTP status.

/** Every kind of failure a program could act on differently. `status` is what HTTP surfaces answer. */
export const errorStatus = {
  invalid_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  already_exists: 409,
  conflict: 409,
  too_large: 413,
  target_too_long: 414,
  unprocessable: 422,
  range_not_satisfiable: 416,
  rate_limited: 429,
  internal: 500,
  unsupported: 501,
  upstream_failed: 502,
  unavailable: 503,
  timeout: 504,
} as const;

export type ErrorCode = keyof typeof errorStatus;

/**
 * A failure with a stable code. `message` is written for the caller and never carries a secret or a host path;
 * `cause` is for the log; `details` are members a surface may add to its error body.
 */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: Record<string, unknown> } = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.details = options.details;
  }

  get status(): number {
    return errorStatus[this.code];
  }
}

/** Wraps anything thrown; an error that is not an AppError becomes `internal` with a message that reveals nothing. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError("internal", "An internal error occurred; the server's log has the details.", { cause: error });
}
