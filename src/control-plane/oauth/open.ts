// Puts the OAuth server together: records, signing keys, the library with its configuration, and the routes in front.
import type { FastifyInstance } from "fastify";
import type { AdapterPayload, Provider } from "oidc-provider";
import { deviceCodeGrant } from "../../contract/oauth.ts";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Revocations } from "../auth/revocations.ts";
import type { Database } from "../db/database.ts";
import type { ServiceAccountService } from "../service-accounts/service.ts";
import type { UserService } from "../users/service.ts";
import { type AccessToken, AccessTokens } from "./access-tokens.ts";
import { createAdapterFactory, hashId, payloadOf } from "./adapter.ts";
import { createBridge } from "./bridge.ts";
import { createClientStore } from "./client-store.ts";
import { type ClientService, createClientService } from "./clients.ts";
import type { OauthConfig } from "./config.ts";
import { createKnownBrowsers } from "./known-browsers.ts";
import { mountOauthForOperator } from "./operator-routes.ts";
import { createProvider } from "./provider.ts";
import { createRecordStore, purgeMax, type RecordStore, revokedToken } from "./record-store.ts";
import { mountAuthorizationServerMetadata, mountOauth } from "./routes.ts";
import { createSigningKeyStore } from "./signing-key-store.ts";
import { SigningKeys } from "./signing-keys.ts";
import { createTokenAliases } from "./token-aliases.ts";

export type OauthOptions = {
  config: { origin: string; oauth: OauthConfig };
  database: Database;
  sealKey: SealKey;
  log: Logger;
  opened: AsyncDisposableStack;
  users: UserService;
  serviceAccounts: ServiceAccountService;
  revocations: Revocations;
};

export type Oauth = {
  accessTokens: AccessTokens;
  signingKeys: SigningKeys;
  /** Removes what has expired; runs by itself. */
  purge: () => Promise<void>;
  /** Nobody is guarded there: who asks is found out there. */
  openRoutes: (app: FastifyInstance) => Promise<void>;
  operatorMount: (app: FastifyInstance) => void;
};

const upkeepIntervalMs = 60_000;
const purgeRoundsMax = 100;

export async function openOauth(options: OauthOptions): Promise<Oauth> {
  const { config, database, sealKey, log, opened, users, serviceAccounts, revocations } = options;
  const issuer = `${config.origin}/v0`;
  const records = createRecordStore(database);
  const clients = createClientService({
    store: createClientStore(database),
    revokeAllOfClient: (clientId) => revokeAll(records, "client_id", clientId),
  });
  revocations.subscribe((principalId) => revokeAll(records, "subject_id", principalId));
  const aliases = createTokenAliases((token) => revokeToken(records, sealKey, token));
  const adapter = createAdapterFactory({
    store: records,
    sealKey,
    aliases,
    findClient: (id) => findClient(id, { clients, serviceAccounts }),
  });
  let provider: Provider | undefined;
  const keys = new SigningKeys({
    store: createSigningKeyStore(database),
    sealKey,
    rotationMs: config.oauth.signingKeyRotationMs,
    accessTokenTtlMs: config.oauth.accessTokenTtlMs,
    onChange: () => {
      provider = undefined;
      accessTokens.forgetVerified();
    },
  });
  const accessTokens = new AccessTokens({ keys, records, issuer });
  /** The library is given its keys when it is made: it is made again when they change, and keeps nothing in itself. */
  const currentProvider = (): Provider => {
    provider ??= createProvider({
      issuer,
      adapter,
      keys: keys.all,
      cookieKey: sealKey.fingerprint("oauth cookies"),
      accessTokenTtlMs: config.oauth.accessTokenTtlMs,
      users,
      serviceAccounts,
      clients,
      flush: records.flush,
      onError: (error) => log.error({ err: error }, "the OAuth server failed"),
    });
    return provider;
  };
  await keys.maintain();
  const bridge = createBridge({ issuer, provider: currentProvider });
  opened.use(startLoop({ name: "oauth-keys", intervalMs: upkeepIntervalMs, log, work: () => keys.maintain() }));
  opened.use(startLoop({ name: "oauth-records", intervalMs: upkeepIntervalMs, log, work: () => purge(records) }));
  const { origin } = config;
  const { flush } = records;
  const browsers = createKnownBrowsers({ sealKey, origin });
  const routes = { provider: currentProvider, bridge, origin, sealKey, users, browsers, flush, accessTokens, aliases };
  return {
    accessTokens,
    signingKeys: keys,
    purge: () => purge(records),
    async openRoutes(app) {
      mountAuthorizationServerMetadata(app, { bridge });
      await app.register(async (scope) => mountOauth(scope, routes), { prefix: "/v0" });
    },
    operatorMount: (app) => mountOauthForOperator(app, { clients, keys }),
  };
}

async function revokeAll(records: RecordStore, column: "subject_id" | "client_id", value: string): Promise<void> {
  await records.removeBy(column, value);
  await records.flush();
}

/** Remembered until it would have expired anyway. */
async function revokeToken(records: RecordStore, sealKey: SealKey, token: AccessToken): Promise<void> {
  await records.upsert({
    model: revokedToken,
    id: token.tokenId,
    grant_id: null,
    uid: null,
    user_code: null,
    subject_id: null,
    client_id: null,
    sealed_payload: sealKey.seal("{}", payloadOf(revokedToken, token.tokenId)),
    consumed_at: null,
    expires_at: new Date(token.expiresAt).toISOString(),
  });
  await records.flush();
}

async function purge(records: RecordStore): Promise<void> {
  const now = new Date().toISOString();
  for (let round = 0; round < purgeRoundsMax; round += 1) {
    if ((await records.purge(now)) < purgeMax) return;
  }
}

/** Registered programs, and service accounts, whose id is their client id. */
async function findClient(
  id: string,
  { clients, serviceAccounts }: { clients: ClientService; serviceAccounts: ServiceAccountService },
): Promise<AdapterPayload | undefined> {
  const client = await clients.find(id);
  if (client !== undefined) {
    return {
      client_id: id,
      client_name: client.name,
      application_type: client.public ? "native" : "web",
      token_endpoint_auth_method: client.public ? "none" : "client_secret_basic",
      ...(!client.public && { client_secret: secretElsewhere(id) }),
      grant_types: ["authorization_code", "refresh_token", deviceCodeGrant],
      response_types: ["code"],
      redirect_uris: client.redirectUris,
    };
  }
  const account = await serviceAccounts.findClient(id);
  if (account === undefined) return undefined;
  return {
    client_id: id,
    client_name: account.name,
    token_endpoint_auth_method: "client_secret_basic",
    client_secret: secretElsewhere(id),
    grant_types: ["client_credentials", "refresh_token"],
    response_types: [],
    redirect_uris: [],
  };
}

/** The library wants to see a secret and asks us to compare it; this one is never compared with. */
function secretElsewhere(id: string): string {
  return hashId(`no secret of ${id}`);
}
