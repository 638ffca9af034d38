// The HTTP server behind the operator socket: whoever can open the socket is the operator of the machine, so no request has a credential.
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../core/log.ts";
import { createServer } from "../app.ts";

/** Recorded where other requests record who asked. */
export const operatorName = "operator";

export type OperatorAppOptions = {
  bodyMaxBytes: number;
  log: Logger;
  routes: (app: FastifyInstance) => void;
};

export function createOperatorApp({ bodyMaxBytes, log, routes }: OperatorAppOptions): Promise<FastifyInstance> {
  return createServer({
    bodyMaxBytes,
    log: log.child({ principal: operatorName }),
    admit: () => Promise.resolve(),
    routes,
  });
}
