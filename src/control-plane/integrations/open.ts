// Puts the parts of integration connections together.
import type { FastifyInstance } from "fastify";
import type { SealKey } from "../../core/seal.ts";
import type { Database } from "../db/database.ts";
import type { Outgoing } from "../outgoing/outgoing.ts";
import { ConnectionModels } from "./models.ts";
import { mountIntegrations } from "./routes.ts";
import { ConnectionService, type ConnectionServiceOptions } from "./service.ts";
import { createConnectionStore } from "./store.ts";

export type IntegrationsOptions = {
  database: Database;
  sealKey: SealKey;
  outgoing: Outgoing;
  findUser: ConnectionServiceOptions["findUser"];
};

export type Integrations = { service: ConnectionService; mount: (app: FastifyInstance) => void };

export function openIntegrations({ database, sealKey, outgoing, findUser }: IntegrationsOptions): Integrations {
  const { policy } = outgoing;
  const service = new ConnectionService({ store: createConnectionStore(database), sealKey, policy, findUser });
  const models = new ConnectionModels({ connections: service, outgoing });
  return { service, mount: (app) => mountIntegrations(app, { service, models }) };
}
