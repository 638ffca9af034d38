// The paths of the OAuth server, open to everyone: what each lets through, and how often.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import {
  authorizationServerMetadataPath,
  deviceCodeGrant,
  firstPartyClientId,
  oauthPaths,
} from "../../contract/oauth.ts";
import { AppError } from "../../core/errors.ts";
import { TokenBuckets } from "../../core/token-buckets.ts";
import { describeFailure } from "../failure.ts";
import { type AccessTokens, looksLikeAccessToken } from "./access-tokens.ts";
import { parametersOf, readOauthBodies, single } from "./bodies.ts";
import type { Bridge, Parameters } from "./bridge.ts";
import { clientAddressOf } from "./client-address.ts";
import { type InteractionOptions, mountInteractions } from "./interactions.ts";
import { commonHeaders } from "./pages.ts";
import { devicePollSeconds } from "./provider.ts";
import type { TokenAliases } from "./token-aliases.ts";

export type OauthRoutesOptions = InteractionOptions & {
  accessTokens: AccessTokens;
  aliases: TokenAliases;
};

/** Whoever begins an authorization leaves records behind before anybody knows who it is: ten minutes of these must fit. */
const beginningsPerAddress = { perSecond: 10, burst: 200 };
const beginningsOfAll = { perSecond: 100, burst: 1_000 };
const requestsPerAddress = { perSecond: 100, burst: 1_000 };
/** Of the codes people type there are 25 thousand million; they live ten minutes. */
const userCodesPerAddress = { perSecond: 0.5, burst: 30 };
const userCodesOfAll = { perSecond: 5, burst: 100 };
/** What is longer is none of ours, and is told apart by its beginning only. */
const deviceCodeMaxLength = 100;
const pollsPerDevice = { perSecond: 1, burst: 2 };

export function mountOauth(app: FastifyInstance, options: OauthRoutesOptions): void {
  const { bridge } = options;
  readOauthBodies(app);
  app.setErrorHandler(sendOauthFailure);
  limitRates(app);
  const asIs = (request: FastifyRequest, reply: FastifyReply) => bridge.forward(request, reply);
  for (const path of [oauthPaths.jwks, oauthPaths.openidConfiguration, oauthPaths.authorizationServer]) {
    app.get(path, asIs);
    app.options(path, asIs);
  }
  app.get(oauthPaths.authorization, asIs);
  app.get(`${oauthPaths.authorization}/:uid`, asIs);
  app.get(oauthPaths.deviceVerification, (request, reply) => {
    // A link may bring the code along. The library would submit it by a script; it goes on under a name that only fills it in.
    request.raw.url = request.raw.url!.replace(/([?&])user_code=/, "$1code=");
    return asIs(request, reply);
  });
  app.get(`${oauthPaths.deviceVerification}/:uid`, asIs);
  app.post(oauthPaths.deviceVerification, (request, reply) => bridge.forward(request, reply, parametersOf(request)));
  mountDeviceAuthorization(app, options);
  mountTokens(app, options);
  mountInteractions(app, options);
}

/** At the origin's root, where RFC 8414 has it for an issuer with a path. */
export function mountAuthorizationServerMetadata(app: FastifyInstance, { bridge }: { bridge: Bridge }): void {
  app.get(authorizationServerMetadataPath, (request, reply) => {
    request.raw.url = oauthPaths.authorizationServer;
    return bridge.forward(request, reply);
  });
}

function mountDeviceAuthorization(app: FastifyInstance, { bridge }: OauthRoutesOptions): void {
  app.post(oauthPaths.deviceAuthorization, (request, reply) => bridge.forward(request, reply, parametersOf(request)));
  app.options(oauthPaths.deviceAuthorization, (request, reply) => bridge.forward(request, reply));
}

function mountTokens(app: FastifyInstance, { bridge, accessTokens, aliases }: OauthRoutesOptions): void {
  const polls = new TokenBuckets(pollsPerDevice);
  /** Device codes somebody asks about at this moment: a second question would use the code twice, which ends the tokens of both. */
  const asking = new Set<string>();
  app.post(oauthPaths.token, async (request, reply) => {
    const parameters = withClient(request, parametersOf(request));
    request.audited = { resource: clientIdOf(request, parameters) ?? null };
    const isPoll = single(parameters, "grant_type") === deviceCodeGrant;
    const deviceCode = isPoll ? single(parameters, "device_code")?.slice(0, deviceCodeMaxLength) : undefined;
    if (deviceCode === undefined) return bridge.forward(request, reply, parameters);
    if (polls.take(deviceCode) > 0 || asking.has(deviceCode)) {
      return sendError(reply, 400, "slow_down", `Wait ${devicePollSeconds} seconds between two questions.`);
    }
    asking.add(deviceCode);
    try {
      return await bridge.forward(request, reply, parameters);
    } finally {
      asking.delete(deviceCode);
    }
  });
  // The library knows tokens it has stored; access tokens stand in the request as what they are.
  const aboutToken = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const parameters = parametersOf(request);
    const text = single(parameters, "token");
    if (text === undefined || !looksLikeAccessToken(text)) return bridge.forward(request, reply, parameters);
    const token = await accessTokens.verify(text);
    const alias = token === undefined ? "invalid" : aliases.add(token);
    try {
      await bridge.forward(request, reply, { ...parameters, token: alias });
    } finally {
      aliases.forget(alias);
    }
  };
  app.post(oauthPaths.revocation, aboutToken);
  app.post(oauthPaths.introspection, aboutToken);
  for (const path of [oauthPaths.token, oauthPaths.revocation, oauthPaths.introspection]) {
    app.options(path, (request, reply) => bridge.forward(request, reply));
  }
}

/** Clients of the service name the device they refresh for, and not themselves. */
function withClient({ headers }: FastifyRequest, parameters: Parameters): Parameters {
  const isAnonymous = headers.authorization === undefined && parameters.client_id === undefined;
  const isDevice = single(parameters, "grant_type") === "refresh_token" && parameters.device_code !== undefined;
  return isAnonymous && isDevice ? { ...parameters, client_id: firstPartyClientId } : parameters;
}

/** Who says to ask, for the audit log; whether it is so, the library finds out. */
function clientIdOf({ headers }: FastifyRequest, parameters: Parameters): string | undefined {
  const basic = /^Basic ([A-Za-z0-9+/]{1,1000}={0,2})$/i.exec(headers.authorization ?? "")?.[1];
  const id =
    basic === undefined ? single(parameters, "client_id") : Buffer.from(basic, "base64").toString().split(":", 1)[0];
  return id !== undefined && /^[\w.-]{1,100}$/.test(id) ? id : undefined;
}

function limitRates(app: FastifyInstance): void {
  const beginnings = new TokenBuckets(beginningsPerAddress);
  const all = new TokenBuckets(beginningsOfAll);
  const requests = new TokenBuckets(requestsPerAddress);
  const userCodes = new TokenBuckets(userCodesPerAddress);
  const allUserCodes = new TokenBuckets(userCodesOfAll);
  const take = (buckets: TokenBuckets, key: string | undefined): number => (key === undefined ? 0 : buckets.take(key));
  app.addHook("onRequest", async (request) => {
    const { method } = request;
    const address = clientAddressOf(request);
    const url = request.routeOptions.url ?? "";
    const begins =
      (method !== "POST" && (url.endsWith(oauthPaths.authorization) || url.endsWith(oauthPaths.deviceVerification))) ||
      (method === "POST" && url.endsWith(oauthPaths.deviceAuthorization));
    const typesCode = method === "POST" && url.endsWith(oauthPaths.deviceVerification);
    const waitMs =
      take(requests, address) ||
      (begins ? take(beginnings, address) || all.take("all") : 0) ||
      (typesCode ? take(userCodes, address) || allUserCodes.take("all") : 0);
    if (waitMs > 0) {
      throw new AppError("rate_limited", "Too many requests; try again later.", { details: { retryAfterMs: waitMs } });
    }
  });
}

/** Errors of ours, in the shape of RFC 6749. */
function sendOauthFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = describeFailure(error);
  request.failure = failure;
  const { retryAfterMs } = failure.details;
  if (typeof retryAfterMs === "number") reply.header("retry-after", String(Math.ceil(retryAfterMs / 1_000)));
  const code =
    failure.status >= 500 ? "server_error" : failure.status === 429 ? "temporarily_unavailable" : "invalid_request";
  void sendError(reply, failure.status, code, failure.message);
}

function sendError(reply: FastifyReply, status: number, error: string, description: string): FastifyReply {
  return reply
    .code(status)
    .headers(commonHeaders)
    .header("content-type", "application/json; charset=utf-8")
    .send({ error, error_description: description });
}
