// How long a search may take; whoever asked and leaves ends it before.
import type { FastifyReply } from "fastify";
import { AppError } from "../../core/errors.ts";
import { closeSignal } from "../client-gone.ts";
import type { SessionContext } from "../session-context.ts";

const namesTimeoutMs = 60_000;

type Asked = { reply: FastifyReply; session: SessionContext };

export async function withinSearchTime<Result>(
  { reply, session }: Asked,
  search: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const gone = closeSignal(reply.raw, session);
  const deadline = AbortSignal.timeout(namesTimeoutMs);
  try {
    return await search(AbortSignal.any([gone, deadline]));
  } catch (error) {
    if (!deadline.aborted || gone.aborted) throw error;
    const message = `The search took longer than ${namesTimeoutMs / 1_000} seconds: search a smaller tree.`;
    throw new AppError("timeout", message, { cause: error });
  }
}
