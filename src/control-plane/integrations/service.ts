// Rules for integration connections, and the secrets of connections for the rest of the control plane.
import type { IntegrationConnection, IntegrationConnectionInput } from "../../contract/integration.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { isName } from "../../core/names.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Caller } from "../auth/caller.ts";
import type { OutgoingPolicy } from "../outgoing/policy.ts";
import { type Draft, draftConnection } from "./draft.ts";
import { type ConnectionRecord, presentConnection, secretOf, type Texts } from "./record.ts";
import type { ConnectionStore } from "./store.ts";

const connectionsMax = 1_000;
/** Changes of one connection at the same moment follow each other; more than this in a row is no accident. */
const changeAttemptsMax = 10;

export type ConnectionServiceOptions = {
  store: ConnectionStore;
  sealKey: SealKey;
  policy: OutgoingPolicy;
  /** Names something that uses the connection, e.g. `the sandbox dev`. */
  findUser: (workspaceId: string, connectionName: string) => Promise<string | undefined>;
};

export class ConnectionService {
  readonly #store: ConnectionStore;
  readonly #sealKey: SealKey;
  readonly #policy: OutgoingPolicy;
  readonly #findUser: ConnectionServiceOptions["findUser"];

  constructor({ store, sealKey, policy, findUser }: ConnectionServiceOptions) {
    this.#store = store;
    this.#sealKey = sealKey;
    this.#policy = policy;
    this.#findUser = findUser;
  }

  async list({ workspaceId, workspace }: Caller): Promise<IntegrationConnection[]> {
    return (await this.#store.list(workspaceId)).map((record) => presentConnection(record, workspace));
  }

  async get({ workspaceId }: Caller, name: string): Promise<ConnectionRecord> {
    const record = await this.#find(workspaceId, name);
    if (record === undefined) throw notFound();
    return record;
  }

  async create(caller: Caller, input: IntegrationConnectionInput): Promise<IntegrationConnection> {
    const { workspaceId, workspace, principalName } = caller;
    const id = randomToken(16);
    const now = new Date().toISOString();
    const record: ConnectionRecord = {
      ...this.#sealDraft(id, draftConnection(input, this.#policy)),
      id,
      workspaceId,
      name: input.metadata.name,
      revision: 1,
      createdAt: now,
      updatedAt: now,
      createdBy: principalName,
      updatedBy: principalName,
    };
    const outcome = await this.#store.insert(record, connectionsMax);
    if (outcome === "full") {
      throw new AppError("invalid_request", `A workspace has at most ${connectionsMax} integration connections.`, {
        details: { error: "quota_exceeded" },
      });
    }
    if (outcome === "inserted") return presentConnection(record, workspace);
    throw new AppError("already_exists", "An integration connection of this name exists already.");
  }

  async update(caller: Caller, name: string, input: IntegrationConnectionInput): Promise<IntegrationConnection> {
    for (let attempt = 0; attempt < changeAttemptsMax; attempt++) {
      const record = await this.get(caller, name);
      if (input.metadata.name !== name) {
        throw new AppError("invalid_request", "metadata.name must be the name in the path: it cannot change");
      }
      const { integration, config } = record;
      const draft = draftConnection(input, this.#policy, { integration, config, secret: this.openSecret(record) });
      const changed: ConnectionRecord = {
        ...record,
        ...this.#sealDraft(record.id, draft),
        revision: record.revision + 1,
        updatedAt: new Date().toISOString(),
        updatedBy: caller.principalName,
      };
      if (await this.#store.replace(changed)) return presentConnection(changed, caller.workspace);
    }
    throw new AppError("conflict", "The integration connection is being changed by others; try again.");
  }

  async delete(caller: Caller, name: string): Promise<IntegrationConnection> {
    const record = await this.get(caller, name);
    const user = await this.#findUser(caller.workspaceId, name);
    if (user !== undefined) throw new AppError("conflict", `The integration connection is used by ${user}.`);
    if (!(await this.#store.remove(caller.workspaceId, record.id))) throw notFound();
    return presentConnection(record, caller.workspace);
  }

  /** One value of a connection's secret; undefined when there is no such connection or key. */
  async resolveSecret(workspaceId: string, connectionName: string, key: string): Promise<string | undefined> {
    const record = await this.#find(workspaceId, connectionName);
    const secret = record && this.openSecret(record);
    return secret !== undefined && Object.hasOwn(secret, key) ? secret[key] : undefined;
  }

  openSecret({ id, sealedSecret }: ConnectionRecord): Texts | undefined {
    if (sealedSecret === undefined) return undefined;
    return JSON.parse(this.#sealKey.open(sealedSecret, secretOf(id))) as Texts;
  }

  async #find(workspaceId: string, name: string): Promise<ConnectionRecord | undefined> {
    return isName(name) ? this.#store.findByName(workspaceId, name) : undefined;
  }

  #sealDraft(id: string, { secret, ...rest }: Draft) {
    return {
      ...rest,
      secretKeys: secret && Object.keys(secret),
      sealedSecret: secret && this.#sealKey.seal(JSON.stringify(secret), secretOf(id)),
    };
  }
}

function notFound(): AppError {
  return new AppError("not_found", "There is no integration connection of this name.");
}
