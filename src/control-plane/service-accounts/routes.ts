// The HTTP operations on service accounts.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  createServiceAccount,
  deleteServiceAccount,
  listServiceAccounts,
  updateServiceAccount,
} from "../../contract/service-account.ts";
import { callerOf } from "../app.ts";
import type { ServiceAccountService } from "./service.ts";

export function mountServiceAccounts(app: FastifyInstance, service: ServiceAccountService): void {
  implement(app, listServiceAccounts, (_input, request) => service.list(callerOf(request)));
  implement(app, createServiceAccount, ({ body }, request) => service.create(callerOf(request), body));
  implement(app, updateServiceAccount, ({ params, body }, request) =>
    service.update(callerOf(request), params.clientId, body),
  );
  implement(app, deleteServiceAccount, ({ params }, request) => service.remove(callerOf(request), params.clientId));
}
