// The OAuth 2.0 server's configuration: which grants it knows, how long things live, who is a client and who a subject.
import type { EventEmitter } from "node:events";
import { type Adapter, type Configuration, errors, type KoaContextWithOIDC, Provider } from "oidc-provider";
import {
  deviceCodeGrant,
  firstPartyClientId,
  oauthPaths,
  oauthScopes,
  protocolScopes,
  tokenAudience,
} from "../../contract/oauth.ts";
import type { Role } from "../auth/scopes.ts";
import type { ServiceAccountService } from "../service-accounts/service.ts";
import type { UserService } from "../users/service.ts";
import { hashId } from "./adapter.ts";
import { createClientCredentialsGrant } from "./client-credentials.ts";
import type { ClientService } from "./clients.ts";
import { createDevicePages } from "./device-pages.ts";
import { readRequestedScopes } from "./granted-scopes.ts";
import { renderErrorPage } from "./pages.ts";
import { type SigningKey, signingAlgorithm } from "./signing-keys.ts";

const day = 86_400;

/** Seconds. A person signs in again after 90 days at the latest, or after 30 without any use. */
const lifetimes = {
  authorizationCode: 60,
  deviceCode: 600,
  interaction: 600,
  session: 600,
  idToken: 3_600,
  refreshToken: 30 * day,
  grant: 90 * day,
  serviceAccountRefreshToken: day,
} as const;

/** Told to devices, which wait this long between two questions. */
export const devicePollSeconds = 2;

const loopbackHosts = ["127.0.0.1", "[::1]", "localhost"];

export type ProviderOptions = {
  issuer: string;
  adapter: (model: string) => Adapter;
  /** The one that signs first. */
  keys: readonly SigningKey[];
  cookieKey: string;
  accessTokenTtlMs: number;
  users: Pick<UserService, "findById" | "listMemberships">;
  serviceAccounts: Pick<ServiceAccountService, "findClient" | "verifySecret">;
  clients: Pick<ClientService, "verifySecret">;
  /** What was written survives a loss of power once this resolves. */
  flush: () => Promise<void>;
  onError: (error: unknown) => void;
};

/** Describes what tokens are for; throws `invalid_target` for any other resource than our API. */
export type ResourceServerOf = (resource: string) => {
  scope: string;
  audience: string;
  accessTokenTTL: number;
  accessTokenFormat: "jwt";
  jwt: { sign: { alg: typeof signingAlgorithm; kid: string } };
};

export function createProvider(options: ProviderOptions): Provider {
  const { issuer, serviceAccounts, clients, flush, onError } = options;
  const resourceServer = describeResourceServer(options);
  const provider = new Provider(issuer, configure(options, resourceServer));
  // Behind a bridge that sets these headers itself, from the configured origin.
  provider.proxy = true;
  provider.use(async (ctx, next) => {
    await next();
    await flush();
    if (ctx.status === 200) completeAnswer(ctx as KoaContextWithOIDC);
  });
  provider.on("server_error", (_ctx, error) => onError(error));
  // What fails around the library's own handling would otherwise be printed; clients that hang up are no failure.
  (provider as EventEmitter).on("error", (error: NodeJS.ErrnoException) => {
    if (!["ECONNRESET", "EPIPE", "ECANCELED"].includes(error.code ?? "")) onError(error);
  });
  provider.registerGrantType(
    "client_credentials",
    createClientCredentialsGrant({ provider, serviceAccounts, resourceServer }),
    ["scope", "resource"],
  );
  // Only hashes of secrets are stored.
  const prototype = provider.Client.prototype as { compareClientSecret: (secret: string) => Promise<boolean> };
  prototype.compareClientSecret = async function compare(this: { clientId: string }, secret): Promise<boolean> {
    if ((await clients.verifySecret(this.clientId, secret)) !== undefined) return true;
    return (await serviceAccounts.verifySecret(this.clientId, secret)) !== undefined;
  };
  return provider;
}

/** Adds what the library does not know of. */
function completeAnswer(ctx: KoaContextWithOIDC): void {
  const route: string | undefined = ctx.oidc?.route;
  const add = (members: object): void => {
    ctx.body = { ...(ctx.body as object), ...members };
  };
  if (route === "device_authorization") add({ interval: devicePollSeconds });
  if (route === "discovery") {
    add({ scopes_supported: [...protocolScopes, ...oauthScopes], response_modes_supported: ["query"] });
  }
}

function describeResourceServer({ keys, accessTokenTtlMs }: ProviderOptions): ResourceServerOf {
  const server = {
    scope: oauthScopes.join(" "),
    audience: tokenAudience,
    accessTokenTTL: Math.max(1, Math.floor(accessTokenTtlMs / 1_000)),
    accessTokenFormat: "jwt" as const,
    jwt: { sign: { alg: signingAlgorithm as typeof signingAlgorithm, kid: keys[0]!.id } },
  };
  return (resource) => {
    if (resource !== tokenAudience) throw new errors.InvalidTarget();
    return server;
  };
}

function configure(options: ProviderOptions, resourceServer: ResourceServerOf): Configuration {
  const { adapter, keys, cookieKey, issuer } = options;
  const secure = issuer.startsWith("https:");
  return {
    adapter: adapter as Configuration["adapter"],
    jwks: {
      keys: keys.map(({ id, privateJwk }) => ({ ...privateJwk, kid: id, use: "sig", alg: signingAlgorithm })),
    },
    cookies: {
      keys: [cookieKey],
      names: { session: "catnap_session", interaction: "catnap_interaction", resume: "catnap_resume" },
      long: { httpOnly: true, sameSite: "lax", secure, signed: true, path: "/v0" },
      short: { httpOnly: true, sameSite: "lax", secure, signed: true },
    },
    routes: {
      authorization: oauthPaths.authorization,
      token: oauthPaths.token,
      revocation: oauthPaths.revocation,
      introspection: oauthPaths.introspection,
      jwks: oauthPaths.jwks,
      device_authorization: oauthPaths.deviceAuthorization,
      code_verification: oauthPaths.deviceVerification,
    },
    scopes: [...protocolScopes],
    clients: [firstPartyClient],
    clientDefaults: {
      grant_types: ["authorization_code"],
      response_types: ["code"],
      id_token_signed_response_alg: signingAlgorithm,
    },
    responseTypes: ["code"],
    subjectTypes: ["public"],
    clientAuthMethods: ["client_secret_basic", "client_secret_post", "none"],
    // Public clients prove with it that they began what they finish; nobody loses by doing so too.
    pkce: { required: (_ctx, client) => client.clientAuthMethod === "none" },
    enabledJWA: { idTokenSigningAlgValues: [signingAlgorithm] },
    clientBasedCORS: (_ctx, origin, client) =>
      client.clientAuthMethod === "none" &&
      (client.redirectUris ?? []).some((uri) => uri.startsWith("https://") && new URL(uri).origin === origin),
    extraParams: { scope: completeScope, response_mode: refuseResponseMode },
    // Its consent is all that an authorization rests on: no other one is borrowed from, or ends with it.
    loadExistingGrant: async ({ oidc }) => {
      const grantId = oidc.result?.consent?.grantId;
      return grantId === undefined ? undefined : oidc.provider.Grant.find(grantId);
    },
    issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed("refresh_token"),
    expiresWithSession: async () => false,
    rotateRefreshToken: async ({ oidc }) => !(await isKnownDevice(oidc)),
    interactions: { url: async (_ctx, { uid }) => `/v0${oauthPaths.interaction}/${uid}` },
    findAccount: findAccount(options),
    extraTokenClaims: async (_ctx, token) => ({
      grant: "grantId" in token && typeof token.grantId === "string" ? hashId(token.grantId) : undefined,
      kind: "accountId" in token && token.accountId === token.clientId ? "service_account" : "user",
    }),
    renderError: async (ctx, out) => renderErrorPage(ctx, out),
    ttl: timesToLive(),
    features: configureFeatures(resourceServer),
  };
}

function configureFeatures(resourceServer: ResourceServerOf): Configuration["features"] {
  return {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true, deviceInfo: () => ({}), ...createDevicePages() },
    // A client may ask about its own tokens, and end them.
    revocation: { enabled: true, allowedPolicy: async (_ctx, client, token) => token.clientId === client.clientId },
    introspection: { enabled: true, allowedPolicy: async (_ctx, client, token) => token.clientId === client.clientId },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => tokenAudience,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => resourceServer(resource),
    },
    dPoP: { enabled: false },
    userinfo: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    rpInitiatedLogout: { enabled: false },
  };
}

const firstPartyClient = {
  client_id: firstPartyClientId,
  client_name: "catnap command line",
  application_type: "native" as const,
  token_endpoint_auth_method: "none" as const,
  grant_types: ["authorization_code", "refresh_token", deviceCodeGrant],
  response_types: ["code" as const],
  redirect_uris: loopbackHosts.flatMap((host) => [`http://${host}/`, `http://${host}/callback`]),
};

function timesToLive(): Configuration["ttl"] {
  const ofServiceAccount = ({ accountId, clientId }: { accountId?: string; clientId?: string }): boolean =>
    accountId !== undefined && accountId === clientId;
  return {
    AuthorizationCode: lifetimes.authorizationCode,
    DeviceCode: lifetimes.deviceCode,
    Interaction: lifetimes.interaction,
    Session: lifetimes.session,
    IdToken: lifetimes.idToken,
    AccessToken: (_ctx, token) => token.resourceServer!.accessTokenTTL!,
    RefreshToken: (_ctx, token) => {
      if (ofServiceAccount(token)) return lifetimes.serviceAccountRefreshToken;
      // Devices keep theirs, see isKnownDevice.
      return token.gty === "device_code" ? lifetimes.grant : lifetimes.refreshToken;
    },
    // Longer than the last access token issued under it.
    Grant: (_ctx, grant) => (ofServiceAccount(grant) ? 2 * lifetimes.serviceAccountRefreshToken : lifetimes.grant),
  };
}

/** A request without scopes means everything the role allows; what that is turns out when the person is known. */
function completeScope(ctx: KoaContextWithOIDC): void {
  const { api, protocol } = readRequestedScopes(ctx.oidc.params?.scope as string | undefined);
  ctx.oidc.params!.scope = [...protocol, ...(api ?? oauthScopes)].join(" ");
}

/** The other modes need a script to be of any use, or put codes where pages of others can read them. */
function refuseResponseMode(ctx: KoaContextWithOIDC, mode: string | undefined): void {
  if (mode === undefined || mode === "query") return;
  ctx.oidc.params!.response_mode = undefined;
  throw new errors.UnsupportedResponseMode();
}

function findAccount({ users, serviceAccounts }: ProviderOptions): NonNullable<Configuration["findAccount"]> {
  return async (_ctx, id, token) => {
    const isServiceAccount = token?.clientId === id;
    const found = isServiceAccount ? await serviceAccounts.findClient(id) : await users.findById(id);
    return found && { accountId: id, claims: async () => ({ sub: id }) };
  };
}

/** What a person may do at most, in whichever workspace. */
export async function highestRole(users: Pick<UserService, "listMemberships">, userId: string): Promise<Role> {
  const memberships = await users.listMemberships(userId);
  return memberships.some(({ role }) => role === "admin") ? "admin" : "member";
}

/**
 * Whether the device that a refresh token was issued to presents it, which it shows by the device code it was issued for. Command lines keep
 * both and never write a new refresh token down; without the code a token is replaced at each use, as any other.
 */
async function isKnownDevice({ body, provider, entities }: KoaContextWithOIDC["oidc"]): Promise<boolean> {
  const deviceCode = body?.device_code;
  if (typeof deviceCode !== "string") return false;
  const code = await provider.DeviceCode.find(deviceCode, { ignoreExpiration: true });
  if (code?.grantId !== undefined && code.grantId === entities.RefreshToken?.grantId) return true;
  throw new errors.InvalidGrant("device code mismatch");
}
