// Puts the parts of sandboxes together, and keeps records and host in agreement behind them.
import { dirname } from "node:path";
import type { FastifyInstance } from "fastify";
import type { Host } from "../../contract/host.ts";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";
import type { SealKey } from "../../core/seal.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { Database } from "../db/database.ts";
import type { PolicyService } from "../policies/service.ts";
import type { Quotas } from "../quotas/service.ts";
import { createAgreementStore } from "./agreement-store.ts";
import { Creations } from "./creation.ts";
import { createCreationStore } from "./creation-store.ts";
import { createDeletions } from "./deletions.ts";
import { createEnvironments, type ResolveSecret } from "./environment.ts";
import { Incarnations } from "./incarnations.ts";
import { createSandboxList } from "./list.ts";
import { createListStore } from "./list-store.ts";
import { createPresenter } from "./present.ts";
import { createReconciler } from "./reconcile.ts";
import { createRestoreGuard } from "./restore-guard.ts";
import { mountSandboxes } from "./routes.ts";
import { createSandboxService, type SandboxService } from "./service.ts";
import type { SandboxStore } from "./store.ts";
import { createUpdateStore } from "./update-store.ts";
import { Updates } from "./updates.ts";
import { countSandboxes } from "./usage.ts";
import { createSandboxViews } from "./views.ts";

export type SandboxParts = {
  config: ControlPlaneConfig;
  host: Host;
  log: Logger;
  database: Database;
  sealKey: SealKey;
  opened: AsyncDisposableStack;
  store: SandboxStore;
  quotas: Quotas;
  policies: Pick<PolicyService, "requireAllowed">;
  resolveSecret: ResolveSecret;
};

export type Sandboxes = {
  service: SandboxService;
  mount: (app: FastifyInstance) => void;
  /** How many a workspace has. */
  count: (workspaceId: string) => Promise<number>;
  /** Resolves when records and host agree. */
  reconcile: () => Promise<void>;
};

export function openSandboxes(parts: SandboxParts): Sandboxes {
  const { config, host, log, database, sealKey, opened, store, resolveSecret } = parts;
  const { address, region, reconcileIntervalMs: intervalMs } = config;
  const creationStore = createCreationStore(database);
  const updateStore = createUpdateStore(database);
  const agreementStore = createAgreementStore(database);
  const restoreGuard = createRestoreGuard({ database, dir: dirname(config.databasePath), log });
  const environments = createEnvironments({ sealKey, resolveSecret, log });
  const presenter = createPresenter({ host, environments, address, region });
  const deleteInstances = createDeletions({ host, log });
  const poke = (): void => deletions.poke();
  const incarnations = new Incarnations({ host, timeoutMs: config.createTimeoutMs, onAborted: poke });
  const shared = { ...parts, environments, incarnations, presenter, poke, deleteInstances, creationStore, updateStore };
  const { finishDeletions, reconcile } = createReconciler({ ...shared, agreementStore, restoreGuard });
  const deletions = opened.use(startLoop({ name: "deletions", intervalMs, log, work: finishDeletions }));
  const agreement = opened.use(startLoop({ name: "agreement", intervalMs, log, work: reconcile }));
  opened.use(incarnations);
  const updates = opened.use(new Updates(shared));
  const creations = new Creations(shared);
  const views = createSandboxViews({ store, presenter });
  const service = createSandboxService({ ...shared, updates, views });
  const list = createSandboxList({ store: createListStore(database), presenter, sealKey });
  return {
    service,
    mount: (app) => mountSandboxes(app, { service, creations, list }),
    count: (workspaceId) => countSandboxes(database.kysely, workspaceId),
    reconcile: () => agreement.run(),
  };
}
