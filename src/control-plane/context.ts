// Composes the control plane: store, authentication, sandboxes, their reconciler, and the server in front of them.
import type { FastifyInstance } from "fastify";
import type { Directory, Host } from "../contract/host.ts";
import type { Logger } from "../core/log.ts";
import { startLoop } from "../core/loop.ts";
import { loadSealKey, type SealKey } from "../core/seal.ts";
import { createApp } from "./app.ts";
import { Authentication } from "./auth/service.ts";
import { createAuthStore } from "./auth/store.ts";
import { type Bootstrap, ensureBootstrap } from "./bootstrap.ts";
import type { ControlPlaneConfig } from "./config.ts";
import type { Database } from "./db/database.ts";
import { openDatabase } from "./db/open.ts";
import { createDirectory } from "./directory.ts";
import { mountDocuments } from "./documents.ts";
import { openFeatures } from "./features/open.ts";
import { type Identity, openIdentity } from "./identity.ts";
import { openIntegrations } from "./integrations/open.ts";
import { createOperatorApp } from "./operator/app.ts";
import { Creations } from "./sandboxes/creation.ts";
import { createCreationStore } from "./sandboxes/creation-store.ts";
import { createSandboxList } from "./sandboxes/list.ts";
import { createListStore } from "./sandboxes/list-store.ts";
import { createPresenter } from "./sandboxes/present.ts";
import { createReconciler } from "./sandboxes/reconcile.ts";
import { mountSandboxes } from "./sandboxes/routes.ts";
import { createSandboxService } from "./sandboxes/service.ts";
import { createSandboxStore, type SandboxStore } from "./sandboxes/store.ts";
import { createSandboxViews } from "./sandboxes/views.ts";
import { mountSealKeys } from "./seal-keys/routes.ts";

export type ControlPlaneOptions = {
  config: ControlPlaneConfig;
  /** Ready: what it does not know of after this does not exist. */
  host: Host;
  log: Logger;
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
  bootstrap: Bootstrap;
  /** Resolves when records and host agree; run once before requests are served. */
  reconcile(): Promise<void>;
};

export async function openControlPlane({
  config,
  host,
  log,
  saveFirstKey,
  sharesDatabase = false,
}: ControlPlaneOptions): Promise<ControlPlane> {
  await using opened = new AsyncDisposableStack();
  const database = opened.use(await openDatabase({ config, isExclusive: !sharesDatabase, log }));
  const sealKey = loadSealKey(config.sealKeyPath);
  const bootstrap = await ensureBootstrap({ database, sealKey, saveFirstKey });
  const identity = openIdentity({ database });
  const authStore = createAuthStore(database);
  const authentication = new Authentication(authStore);
  const store = createSandboxStore(database);
  const parts: Parts = { config, host, log, database, sealKey, opened };
  const sandboxes = openSandboxes(parts, store);
  const integrations = openIntegrations({ ...parts, findUser: async () => undefined });
  const features = openFeatures({ ...parts, findWorkspaceId: (name) => authStore.findWorkspaceId(name) });
  // One line a noun; see Mount.
  const mounts: Mount[] = [sandboxes.mount, integrations.mount, features.mount];
  // Operations for the operator of the machine, on a socket of their own.
  const operatorMounts: Mount[] = [(operator) => mountSealKeys(operator, sealKey), features.operatorMount];
  const app = await createApp({
    authentication,
    bodyMaxBytes: config.bodyMaxBytes,
    log,
    routes: (scope) => {
      for (const mount of mounts) mount(scope);
    },
    openRoutes: (server) => mountDocuments(server, config),
  });
  opened.defer(() => app.close());
  const operatorApp = await createOperatorApp({
    bodyMaxBytes: config.bodyMaxBytes,
    log,
    routes: (scope) => {
      for (const mount of operatorMounts) mount(scope);
    },
  });
  opened.defer(() => operatorApp.close());
  const stack = opened.move();
  return {
    app,
    operatorApp,
    directory: createDirectory({ authentication, authStore, sandboxes: store }),
    authentication,
    identity,
    bootstrap,
    reconcile: sandboxes.reconcile,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Adds the operations of a noun below `/v0` of its surface. */
type Mount = (app: FastifyInstance) => void;

/** What a noun is made of. */
type Parts = Pick<ControlPlaneOptions, "config" | "host" | "log"> & {
  database: Database;
  sealKey: SealKey;
  opened: AsyncDisposableStack;
};

function openSandboxes(
  { config, host, log, database, sealKey, opened }: Parts,
  store: SandboxStore,
): { mount: Mount; reconcile: () => Promise<void> } {
  const { address, region } = config;
  const creationStore = createCreationStore(database);
  const presenter = createPresenter({ host, sealKey, address, region });
  const poke = (): void => deletions.poke();
  const creations = new Creations({ config, host, sealKey, store, creationStore, presenter, log, poke });
  const { finishDeletions, reconcile } = createReconciler({ host, store, creationStore, creations, log });
  const { reconcileIntervalMs: intervalMs } = config;
  const deletions = opened.use(startLoop({ name: "deletions", intervalMs, log, work: finishDeletions }));
  const agreement = opened.use(startLoop({ name: "agreement", intervalMs, log, work: reconcile }));
  opened.use(creations);
  const service = createSandboxService({
    store,
    creations,
    presenter,
    views: createSandboxViews({ store, presenter }),
    poke,
  });
  const list = createSandboxList({ store: createListStore(database), presenter, sealKey });
  return { mount: (app) => mountSandboxes(app, { service, creations, list }), reconcile: () => agreement.run() };
}
