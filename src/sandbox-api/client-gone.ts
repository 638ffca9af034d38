// Tells long answers that nobody listens any more.
import type { ServerResponse } from "node:http";
import { AppError } from "../core/errors.ts";
import type { SessionContext } from "./session-context.ts";

/** Aborts when the connection closes before the answer was sent, or when the session ends. */
export function closeSignal(response: ServerResponse, session: SessionContext): AbortSignal {
  const gone = new AbortController();
  const onEnd = (): void => gone.abort(session.ended.reason);
  const onClose = (): void => {
    session.ended.removeEventListener("abort", onEnd);
    if (!response.writableFinished) gone.abort(new AppError("unavailable", "The client closed the connection."));
  };
  response.once("close", onClose);
  session.ended.addEventListener("abort", onEnd, { once: true });
  if (session.ended.aborted) onEnd();
  // It may have gone while what it asked for was begun: nothing tells that again.
  if (response.destroyed) onClose();
  return gone.signal;
}
