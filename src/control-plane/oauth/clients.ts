// Programs that people may sign in to, registered by the operator: public ones, and confidential ones with a secret.
import type { NewOauthClient, OauthClient, OauthClientInput } from "../../contract/operator/oauth.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { generateSecret, hashSecret, matchesHash } from "../auth/secrets.ts";
import type { OauthClientsTable } from "../db/tables/oauth-clients.ts";
import type { ClientStore } from "./client-store.ts";
import { checkRedirectUri } from "./redirect-uris.ts";

export type ClientService = ReturnType<typeof createClientService>;

const clientsMax = 500;
/** Compared with when there is no such client, so that the answer takes as long. */
const nobody = hashSecret("");

export function createClientService(options: {
  store: ClientStore;
  /** Resolves once no token of the client is accepted any more. */
  revokeAllOfClient: (clientId: string) => Promise<void>;
}) {
  const { store, revokeAllOfClient } = options;
  const find = async (id: string): Promise<Readonly<OauthClientsTable> | undefined> =>
    /^[a-z0-9]{20}$/.test(id) ? store.find(id) : undefined;
  return {
    async find(id: string): Promise<OauthClient | undefined> {
      const row = await find(id);
      return row && present(row);
    },
    async verifySecret(id: string, secret: string): Promise<OauthClient | undefined> {
      const row = await find(id);
      const matches = matchesHash(secret, row?.secret_hash ?? nobody);
      return matches && row !== undefined && row.secret_hash !== null ? present(row) : undefined;
    },
    list: async (): Promise<OauthClient[]> => (await store.list()).map(present),
    /** The secret is answered here and never again. */
    async create(input: OauthClientInput): Promise<NewOauthClient> {
      for (const uri of input.redirectUris) checkRedirectUri(uri, { isPublic: input.public });
      if ((await store.list()).length >= clientsMax) {
        throw new AppError("conflict", `There are at most ${clientsMax} clients.`);
      }
      const clientSecret = input.public ? undefined : generateSecret("clientSecret");
      const row: OauthClientsTable = {
        id: randomToken(20),
        name: input.name,
        secret_hash: clientSecret === undefined ? null : hashSecret(clientSecret),
        redirect_uris: JSON.stringify([...new Set(input.redirectUris)]),
        created_at: new Date().toISOString(),
      };
      await store.insert(row);
      return { ...present(row), clientSecret };
    },
    async remove(id: string): Promise<OauthClient> {
      const row = await store.remove(id);
      if (row === undefined) throw new AppError("not_found", "There is no such client.");
      await revokeAllOfClient(id);
      return present(row);
    },
  };
}

function present({ id, name, secret_hash, redirect_uris, created_at }: Readonly<OauthClientsTable>): OauthClient {
  return {
    clientId: id,
    name,
    public: secret_hash === null,
    redirectUris: JSON.parse(redirect_uris) as string[],
    createdAt: created_at,
  };
}
