// Between our server and the OAuth library's: hands each request over with only what the library needs to see of it.
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Provider } from "oidc-provider";
import { timingOf } from "../../core/timing.ts";
import { closedPolicy, commonHeaders } from "./pages.ts";

export type Parameters = Readonly<Record<string, string | readonly string[]>>;

/** Headers the library reads; proxies' and others are kept from it. */
const passedHeaders = ["accept", "authorization", "cookie", "origin", "access-control-request-method"] as const;

const basePath = "/v0";

export type Bridge = {
  /** The request as the library gets it: addressed to the issuer, its body, if any, as a form. */
  translate(request: FastifyRequest, body?: Parameters): IncomingMessage;
  /** Lets the library answer. */
  forward(request: FastifyRequest, reply: FastifyReply, body?: Parameters): Promise<void>;
};

export function createBridge({ issuer, provider }: { issuer: string; provider: () => Provider }): Bridge {
  const { host, protocol } = new URL(issuer);
  const translate: Bridge["translate"] = (request, body) => {
    const translated = new IncomingMessage(new Socket());
    const form = body === undefined ? undefined : Buffer.from(encodeForm(body));
    translated.method = request.method;
    translated.url = withoutBase(request.raw.url ?? "/");
    // The library finds its base path by comparing the two.
    (translated as IncomingMessage & { originalUrl: string }).originalUrl = `${basePath}${translated.url}`;
    for (const name of passedHeaders) {
      const value = request.headers[name];
      if (value !== undefined) translated.headers[name] = value;
    }
    translated.headers.host = host;
    translated.headers["x-forwarded-proto"] = protocol.slice(0, -1);
    if (form !== undefined) {
      translated.headers["content-type"] = "application/x-www-form-urlencoded";
      translated.headers["content-length"] = String(form.length);
      translated.push(form);
    }
    translated.push(null);
    translated.complete = true;
    return translated;
  };
  return {
    translate,
    async forward(request, reply, body) {
      const translated = translate(request, body);
      reply.hijack();
      for (const [name, value] of Object.entries(commonHeaders)) reply.raw.setHeader(name, value);
      reply.raw.setHeader("content-security-policy", closedPolicy);
      reply.raw.setHeader("server-timing", timingOf(request.raw).header());
      await provider().callback()(translated, reply.raw);
    },
  };
}

function withoutBase(url: string): string {
  return url.startsWith(basePath) ? url.slice(basePath.length) || "/" : url;
}

function encodeForm(body: Parameters): string {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(body)) {
    for (const one of typeof value === "string" ? [value] : value) form.append(name, one);
  }
  return form.toString();
}
