// The operator's operations on OAuth clients and signing keys, mounted.
import type { FastifyInstance } from "fastify";
import { implement } from "../../contract/implement.ts";
import {
  createOauthClient,
  deleteOauthClient,
  listOauthClients,
  listSigningKeys,
  type OauthSigningKey,
  rotateSigningKeys,
} from "../../contract/operator/oauth.ts";
import type { ClientService } from "./clients.ts";
import type { SigningKeys } from "./signing-keys.ts";

export function mountOauthForOperator(
  app: FastifyInstance,
  { clients, keys }: { clients: ClientService; keys: SigningKeys },
): void {
  implement(app, listOauthClients, () => clients.list());
  implement(app, createOauthClient, ({ body }) => clients.create(body));
  implement(app, deleteOauthClient, ({ params }) => clients.remove(params.clientId));
  implement(app, listSigningKeys, () => present(keys));
  implement(app, rotateSigningKeys, async ({ body }) => {
    await keys.rotate({ revoke: body.revoke ?? false });
    return present(keys);
  });
}

function present(keys: SigningKeys): OauthSigningKey[] {
  return keys.all.map(({ id, createdAt, activeAt }) => ({
    keyId: id,
    createdAt,
    activeAt,
    signs: id === keys.current.id,
  }));
}
