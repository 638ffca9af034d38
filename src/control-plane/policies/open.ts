// Puts the noun together.
import type { FastifyInstance } from "fastify";
import type { SealKey } from "../../core/seal.ts";
import type { Database } from "../db/database.ts";
import type { LocationConfig } from "../locations/config.ts";
import { createPolicyList } from "./list.ts";
import { mountPolicies } from "./routes.ts";
import { createPolicyService } from "./service.ts";
import { createPolicyStore } from "./store.ts";

export type PolicyParts = { config: { location: LocationConfig }; database: Database; sealKey: SealKey };

export function openPolicies({ config, database, sealKey }: PolicyParts) {
  const service = createPolicyService({ store: createPolicyStore(database), location: config.location });
  return {
    service,
    mount: (app: FastifyInstance) => mountPolicies(app, service, createPolicyList(service, sealKey)),
  };
}
