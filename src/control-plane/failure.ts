// What a failed request is told: one translator from anything thrown to status, kind and message, and the general error body.
import type { ErrorBody } from "../contract/error.ts";
import { type AppError, toAppError } from "../core/errors.ts";

export type Failure = {
  status: number;
  /** Kind of failure on the wire, e.g. `not_found`. */
  error: string;
  message: string;
  details: Readonly<Record<string, unknown>>;
  /** For the log, when it is the platform's fault. */
  cause: unknown;
};

type FrameworkError = { code?: unknown; statusCode?: unknown };

/** The framework's own refusals by their code. Its messages are not passed on: one quotes the body. */
const frameworkFailures: Readonly<Record<string, Pick<Failure, "status" | "error" | "message">>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    status: 415,
    error: "unsupported_media_type",
    message: "Send the body as `Content-Type: application/json`.",
  },
  FST_ERR_CTP_BODY_TOO_LARGE: { status: 413, error: "too_large", message: "The body is too large." },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    status: 400,
    error: "invalid_request",
    message: "The body does not have the length that Content-Length gives.",
  },
  // The caller hung up while sending.
  ECONNRESET: { status: 400, error: "invalid_request", message: "The body ended early." },
  FST_ERR_MAX_PARAM_LENGTH: { status: 404, error: "not_found", message: "There is nothing at this path." },
  FST_ERR_BAD_URL: { status: 400, error: "invalid_request", message: "The path is not a valid URL path." },
};

export function describeFailure(thrown: unknown): Failure {
  const { code, statusCode } = (thrown ?? {}) as FrameworkError;
  const known = typeof code === "string" ? frameworkFailures[code] : undefined;
  if (known !== undefined) return { ...known, details: {}, cause: undefined };
  if (statusCode === 400) {
    return {
      status: 400,
      error: "invalid_request",
      message: "The body is not valid JSON.",
      details: {},
      cause: undefined,
    };
  }
  const failure: AppError = toAppError(thrown);
  const { error = failure.code, ...details } = failure.details ?? {};
  return {
    status: failure.status,
    error: String(error),
    message: failure.message,
    details,
    cause: failure.status >= 500 ? (failure.cause ?? thrown) : undefined,
  };
}

export function formatErrorBody({ status, error, message }: Failure): ErrorBody {
  return { error, code: status, message };
}
