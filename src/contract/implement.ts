// Mounts a declared operation on a Fastify server: input read by its schemas, output written by its response schema.
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptions } from "fastify";
import type { Static, TSchema } from "typebox";
import type { Endpoint } from "./endpoint.ts";
import { compileInput } from "./input.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The declaration a route was mounted from: guards and logs read it. */
    endpoint?: Endpoint;
  }
}

type Part<Schema> = Schema extends TSchema ? Static<Schema> : undefined;

export type Input<Declared extends Endpoint> = {
  params: Part<Declared["params"]>;
  query: Part<Declared["query"]>;
  body: Part<Declared["body"]>;
};

export type Output<Declared extends Endpoint> = Static<Declared["response"]>;

/** Returns the answer, or the reply itself when it has sent one. */
export type Handler<Declared extends Endpoint> = (
  input: Input<Declared>,
  request: FastifyRequest,
  reply: FastifyReply,
) => Output<Declared> | FastifyReply | Promise<Output<Declared> | FastifyReply>;

export function implement<Declared extends Endpoint>(
  app: FastifyInstance,
  declared: Declared,
  handle: Handler<Declared>,
  options: Pick<RouteShorthandOptions, "errorHandler"> = {},
): void {
  const readParams = declared.params && compileInput(declared.params, "params");
  const readQuery = declared.query && compileInput(declared.query, "query");
  const readBody = declared.body && compileInput(declared.body, "body");
  app.route({
    ...options,
    method: declared.method,
    url: declared.path,
    config: { endpoint: declared },
    schema: { response: { 200: declared.response } },
    handler(request, reply) {
      const input = {
        params: readParams?.(request.params),
        query: readQuery?.(request.query),
        body: readBody?.(request.body),
      } as Input<Declared>;
      const answer = handle(input, request, reply);
      if (answer instanceof Promise) return answer;
      if (answer !== reply) reply.send(answer);
    },
  });
}
