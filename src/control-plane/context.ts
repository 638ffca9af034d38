// Composes the control plane: store, authentication, sandboxes, their reconciler, and the server in front of them.
import type { FastifyInstance } from "fastify";
import type { Directory, Host } from "../contract/host.ts";
import type { Logger } from "../core/log.ts";
import { SealKeys } from "../core/seal-keys.ts";
import { type AppOptions, createApp } from "./app.ts";
import { type Audit, openAudit } from "./audit/open.ts";
import { createGuard } from "./auth/guard.ts";
import type { Authentication } from "./auth/service.ts";
import { mountBackups } from "./backups/routes.ts";
import { type Bootstrap, ensureBootstrap } from "./bootstrap.ts";
import type { ControlPlaneConfig } from "./config.ts";
import { openDatabase } from "./db/open.ts";
import { createDirectory } from "./directory.ts";
import { mountDocuments } from "./documents.ts";
import { openFeatures } from "./features/open.ts";
import { type Identity, openIdentity } from "./identity.ts";
import { openImages } from "./images/open.ts";
import { openIntegrations } from "./integrations/open.ts";
import type { ConnectionService } from "./integrations/service.ts";
import { mountLocations } from "./locations/routes.ts";
import { type Oauth, openOauth } from "./oauth/open.ts";
import { createOperatorApp } from "./operator/app.ts";
import { Outgoing } from "./outgoing/outgoing.ts";
import { openPolicies } from "./policies/open.ts";
import { openPreviews, type Previews } from "./previews/open.ts";
import { openQuotas } from "./quotas/open.ts";
import { openSandboxes } from "./sandboxes/open.ts";
import { createSandboxStore } from "./sandboxes/store.ts";
import { openSealKeys } from "./seal-keys/open.ts";
import { openVolumeTemplates } from "./volume-templates/open.ts";

export type ControlPlaneOptions = {
  config: ControlPlaneConfig;
  /** Ready: what it does not know of after this does not exist. */
  host: Host;
  log: Logger;
  /** Shared with the host; opened from the configuration when left out. */
  sealKeys?: SealKeys;
  /** See Bootstrap: told the first key before it begins to exist. */
  saveFirstKey?: (apiKey: string) => void;
  /** Lets other processes, or other control planes of this one, use the same database server's database: for tests. */
  sharesDatabase?: boolean;
};

export type ControlPlane = AsyncDisposable & {
  /** Serves `/v0`: pass requests to `app.routing`. */
  app: FastifyInstance;
  /** Serves the operator socket. */
  operatorApp: FastifyInstance;
  directory: Directory;
  authentication: Authentication;
  identity: Identity;
  connections: ConnectionService;
  audit: Audit;
  oauth: Oauth;
  bootstrap: Bootstrap;
  previews: Previews;
  /** Resolves when records and host agree; run once before requests are served. */
  reconcile(): Promise<void>;
};

export async function openControlPlane({
  config,
  host,
  log,
  saveFirstKey,
  sealKeys,
  sharesDatabase = false,
}: ControlPlaneOptions): Promise<ControlPlane> {
  await using opened = new AsyncDisposableStack();
  const database = opened.use(await openDatabase({ config, isExclusive: !sharesDatabase, log }));
  const keys = sealKeys ?? new SealKeys(config.sealKey);
  const { key: sealKey } = keys;
  const bootstrap = await ensureBootstrap({ database, sealKey, saveFirstKey });
  const identity = openIdentity({ database, opened, log, region: config.region, lastUseIntervalMs: 60_000 });
  const store = createSandboxStore(database);
  const parts = { config, host, log, database, sealKey, opened };
  const oauth = await openOauth({ ...parts, ...identity });
  identity.tokens.verify = (token) => oauth.accessTokens.verify(token);
  const outgoing = new Outgoing(config.outgoing);
  const integrations = openIntegrations({
    ...parts,
    outgoing,
    findUser: (...named) => sandboxes.service.findUser(...named),
  });
  const findWorkspaceId = (name: string) => identity.authStore.findWorkspaceId(name);
  const quotas = openQuotas({ ...parts, findWorkspaceId });
  const images = openImages({ ...parts, findWorkspaceId });
  const policies = openPolicies(parts);
  const sandboxes = openSandboxes({
    ...parts,
    host: images.host,
    policies: policies.service,
    store,
    quotas: quotas.service,
    resolveSecret: (...named) => integrations.service.resolveSecret(...named),
  });
  const previews = openPreviews({ ...parts, getSandboxId: (...named) => sandboxes.service.getId(...named) });
  const features = openFeatures({ ...parts, findWorkspaceId });
  const volumeTemplates = await openVolumeTemplates({ ...parts, authentication: identity.authentication });
  const audit = openAudit(parts);
  // One line a noun; see Mount.
  const nouns = [sandboxes, previews, volumeTemplates, quotas, integrations, features, images, policies, audit];
  const mounts: Mount[] = [
    ...nouns.map(({ mount }) => mount),
    (scope) => identity.mount(scope, { sandboxes: sandboxes.count, volumetemplates: volumeTemplates.count }),
    (scope) => mountLocations(scope, config.location),
  ];
  // Operations for the operator of the machine, on a socket of their own.
  const operatorMounts: Mount[] = [
    ...[features, quotas, oauth, audit, identity, openSealKeys({ ...parts, keys })].map((noun) => noun.operatorMount),
    (operator) => mountBackups(operator, { database, sealKey }),
  ];
  const servers = await openServers({
    guard: createGuard(identity.authentication, config.requestLimits),
    audit: audit.observer,
    config,
    log,
    opened,
    mounts,
    operatorMounts,
    openRoutes: mountOpen((app) => mountDocuments(app, config), oauth.openRoutes, volumeTemplates.mountUploads),
  });
  const stack = opened.move();
  return {
    ...servers,
    directory: createDirectory({ ...identity, sandboxes: store, previews: previews.directory, origin: config.origin }),
    previews,
    authentication: identity.authentication,
    identity,
    connections: integrations.service,
    audit,
    oauth,
    bootstrap,
    reconcile: sandboxes.reconcile,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Adds the operations of a noun below `/v0` of its surface. */
type Mount = (app: FastifyInstance) => void;

type ServerParts = Pick<AppOptions, "guard" | "audit" | "log" | "openRoutes"> & {
  config: ControlPlaneConfig;
  opened: AsyncDisposableStack;
  mounts: readonly Mount[];
  operatorMounts: readonly Mount[];
};

async function openServers({
  opened,
  mounts,
  operatorMounts,
  config: { trustedProxies, bodyMaxBytes, bodyTimeoutMs },
  ...shared
}: ServerParts): Promise<Pick<ControlPlane, "app" | "operatorApp">> {
  const options = { ...shared, bodyMaxBytes, bodyTimeoutMs };
  const app = await createApp({ ...options, trustedProxies, routes: mountAll(mounts) });
  opened.defer(() => app.close());
  const { log, audit } = shared;
  const operatorApp = await createOperatorApp({
    bodyMaxBytes,
    bodyTimeoutMs,
    log,
    audit,
    routes: mountAll(operatorMounts),
  });
  opened.defer(() => operatorApp.close());
  return { app, operatorApp };
}

function mountOpen(...mounts: readonly ((app: FastifyInstance) => Promise<void>)[]): AppOptions["openRoutes"] {
  return async (app) => {
    for (const mount of mounts) await mount(app);
  };
}

function mountAll(mounts: readonly Mount[]): Mount {
  return (app) => {
    for (const mount of mounts) mount(app);
  };
}
