// Brings a request to its instance: wakes it when it sleeps, keeps it awake as long as the request is one, and answers when it cannot be reached.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { AppError, toAppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { timingOf } from "../core/timing.ts";
import { answerError, refuseUpgrade } from "../sandbox-api/error-answer.ts";
import type { SandboxSession } from "../sandbox-api/session.ts";
import { carriedBy } from "./instances/carried-bytes.ts";
import type { Instance } from "./instances/instance.ts";

export type Serve = {
  handle(instanceId: string, request: IncomingMessage, response: ServerResponse): void;
  upgrade(instanceId: string, request: IncomingMessage, socket: Duplex, head: Buffer): void;
};

export function createServe(options: { find: (instanceId: string) => Instance | undefined; log: Logger }): Serve {
  const { find, log } = options;

  /** Calls `serve` at once when the instance is awake, else after it woke; its hold on it ends when the answer closes, however it does. */
  const withInstance = (
    instanceId: string,
    request: IncomingMessage,
    answer: ServerResponse | Duplex,
    { serve, refuse }: { serve: (session: SandboxSession) => void; refuse: (error: AppError) => void },
  ): void => {
    const startedAt = performance.now();
    const fail = (error: unknown): void => {
      const failure = toAppError(error);
      if (failure.status >= 500) log.warn({ instance: instanceId, err: error }, "instance not reached");
      refuse(failure);
    };
    const proceed = (instance: Instance): void => {
      // Whoever asked may have left while the instance woke, and what kept it awake with them.
      if (answer.closed) return;
      timingOf(request).add("wake", performance.now() - startedAt);
      serve(instance.session);
    };
    try {
      const instance = find(instanceId);
      if (instance === undefined) throw new AppError("not_found", "This sandbox does not run here.");
      if (answer.closed) return;
      const use = instance.connect(carriedBy(request, answer));
      answer.once("close", () => use[Symbol.dispose]());
      if (instance.isReady()) return proceed(instance);
      instance
        .ready()
        .then(() => proceed(instance))
        .catch(fail);
    } catch (error) {
      fail(error);
    }
  };

  return {
    handle(instanceId, request, response) {
      withInstance(instanceId, request, response, {
        serve: (session) => session.handle(request, response),
        refuse: (error) => answerError(request, response, error),
      });
    },
    upgrade(instanceId, request, socket, head) {
      withInstance(instanceId, request, socket, {
        serve: (session) => session.upgrade(request, socket, head),
        refuse: (error) => refuseUpgrade(request, socket, error),
      });
    },
  };
}
