// Puts the noun together.
import type { FastifyInstance } from "fastify";
import type { Database } from "../db/database.ts";
import { mountQuotas } from "./routes.ts";
import { createQuotas, type QuotaDefaults, type Quotas } from "./service.ts";
import { createQuotaStore } from "./store.ts";

export type QuotaParts = { config: QuotaDefaults; database: Database };

export function openQuotas({ config, database }: QuotaParts): {
  service: Quotas;
  mount: (app: FastifyInstance) => void;
} {
  const service = createQuotas({ store: createQuotaStore(database), config });
  return { service, mount: (app) => mountQuotas(app, service) };
}
