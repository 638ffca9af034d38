// The logger: JSON lines on standard error, one event a line, fields rather than sentences with values in them.
import { type Logger, pino } from "pino";

export type { Logger };
export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "silent";

/** Header values and members that could carry a credential; they are removed wherever a log line would show them. */
const secretPaths = ["req.headers", "headers", "*.headers", "token", "*.token", "apiKey", "*.apiKey", "envs", "*.envs"];

export function createLogger(level: LogLevel): Logger {
  return pino(
    { level, base: undefined, redact: { paths: secretPaths, remove: true }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: false, minLength: 0 }),
  );
}
