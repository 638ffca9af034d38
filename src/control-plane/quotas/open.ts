// Puts the noun together.
import type { FastifyInstance } from "fastify";
import type { Database } from "../db/database.ts";
import { mountOperatorQuotas, mountQuotas } from "./routes.ts";
import { createQuotas, type QuotasOptions } from "./service.ts";
import { createQuotaStore } from "./store.ts";

export type QuotaParts = Omit<QuotasOptions, "store"> & { database: Database };

export function openQuotas({ database, ...options }: QuotaParts) {
  const service = createQuotas({ ...options, store: createQuotaStore(database) });
  return {
    service,
    mount: (app: FastifyInstance) => mountQuotas(app, service),
    operatorMount: (operator: FastifyInstance) => mountOperatorQuotas(operator, service),
  };
}
