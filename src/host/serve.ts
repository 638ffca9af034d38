// Brings a request to its instance: holds it awake, wakes it when it sleeps, and answers when it cannot be reached.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { AppError, toAppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { timingOf } from "../core/timing.ts";
import type { Instance } from "./instances/instance.ts";

export type Serve = {
  handle(instanceId: string, request: IncomingMessage, response: ServerResponse): void;
  upgrade(instanceId: string, request: IncomingMessage, socket: Duplex, head: Buffer): void;
};

export function createServe(options: { find: (instanceId: string) => Instance | undefined; log: Logger }): Serve {
  const { find, log } = options;

  /** Calls `serve` at once when the instance is awake, else after it woke; the lease ends with `done`. */
  const withInstance = (
    instanceId: string,
    request: IncomingMessage,
    done: { once(event: "close", listener: () => void): unknown },
    serve: (instance: Instance) => void,
    refuse: (error: AppError) => void,
  ): void => {
    const timing = timingOf(request);
    const startedAt = performance.now();
    const instance = find(instanceId);
    if (instance === undefined) return refuse(notHere());
    const proceed = (): void => {
      timing.add("wake", performance.now() - startedAt);
      serve(instance);
    };
    try {
      const lease = instance.acquire();
      done.once("close", () => lease[Symbol.dispose]());
      if (instance.isReady()) return proceed();
    } catch (error) {
      return refuse(toAppError(error));
    }
    instance
      .ready()
      .then(proceed)
      .catch((error: unknown) => {
        log.warn({ instance: instanceId, err: error }, "instance could not be woken");
        refuse(toAppError(error));
      });
  };

  return {
    handle(instanceId, request, response) {
      withInstance(
        instanceId,
        request,
        response,
        (instance) => instance.session.handle(request, response),
        (error) => {
          if (response.headersSent) return response.destroy();
          const body = JSON.stringify({ error: error.message });
          response.writeHead(error.status, {
            "content-type": "application/json",
            "content-length": Buffer.byteLength(body),
            "server-timing": timingOf(request).header(),
          });
          response.end(body);
        },
      );
    },
    upgrade(instanceId, request, socket, head) {
      withInstance(
        instanceId,
        request,
        socket,
        (instance) => instance.session.upgrade(request, socket, head),
        (error) => {
          socket.end(`HTTP/1.1 ${error.status} Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
        },
      );
    },
  };
}

function notHere(): AppError {
  return new AppError("not_found", "This sandbox does not run here.");
}
