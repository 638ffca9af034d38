// The operations on integration connections, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  createIntegrationConnection,
  deleteIntegrationConnection,
  getIntegration,
  getIntegrationConnection,
  getIntegrationConnectionModel,
  getIntegrationConnectionModelEndpointConfigurations,
  listIntegrationConnectionModels,
  listIntegrationConnections,
  updateIntegrationConnection,
} from "../../contract/integration.ts";
import { callerOf } from "../app.ts";
import { describeIntegration } from "./catalogue.ts";
import type { ConnectionModels } from "./models.ts";
import { presentConnection } from "./record.ts";
import type { ConnectionService } from "./service.ts";

export type IntegrationRoutesOptions = { service: ConnectionService; models: ConnectionModels };

export function mountIntegrations(app: FastifyInstance, { service, models }: IntegrationRoutesOptions): void {
  implement(app, listIntegrationConnections, (_input, request) => service.list(callerOf(request)));
  implement(app, createIntegrationConnection, ({ body }, request) => service.create(callerOf(request), body));
  implement(app, getIntegrationConnection, async ({ params }, request) => {
    const caller = callerOf(request);
    return presentConnection(await service.get(caller, params.connectionName), caller.workspace);
  });
  implement(app, updateIntegrationConnection, ({ params, body }, request) =>
    service.update(callerOf(request), params.connectionName, body),
  );
  implement(app, deleteIntegrationConnection, ({ params }, request) =>
    service.delete(callerOf(request), params.connectionName),
  );
  implement(app, listIntegrationConnectionModels, async ({ params }, request) => [
    ...(await models.list(callerOf(request), params.connectionName)),
  ]);
  implement(app, getIntegrationConnectionModel, ({ params }, request) =>
    models.get(callerOf(request), params.connectionName, params.modelId),
  );
  implement(app, getIntegrationConnectionModelEndpointConfigurations, ({ params }, request) =>
    models.endpoints(callerOf(request), params.connectionName),
  );
  implement(app, getIntegration, ({ params }) => describeIntegration(params.integrationName));
}
