// Rules for previews and their tokens.
import type { AddressSettings } from "../../contract/address.ts";
import {
  createSandboxPreviewToken,
  type Preview,
  type PreviewInput,
  type PreviewToken,
  type PreviewTokenInput,
} from "../../contract/preview.ts";
import { formatPreviewLabel, formatPreviewUrl } from "../../contract/preview-address.ts";
import { AppError } from "../../core/errors.ts";
import { randomToken } from "../../core/ids.ts";
import { isName } from "../../core/names.ts";
import type { Caller } from "../auth/caller.ts";
import { covers } from "../auth/scopes.ts";
import { generateSecret, hashSecret } from "../auth/secrets.ts";
import { draftPreview, readFuture } from "./draft.ts";
import { appendEvent, type PreviewRecord, presentPreview, presentToken } from "./record.ts";
import type { PreviewStore } from "./store.ts";
import { type TokenStore, tokensPerPreviewMax } from "./token-store.ts";
import type { TokenValues } from "./token-value.ts";

/** Changes of one preview at the same moment follow each other; more than this in a row is no accident. */
const changeAttemptsMax = 10;

export type PreviewServiceOptions = {
  store: PreviewStore;
  tokens: TokenStore;
  tokenValues: TokenValues;
  /** The id of the record that has the name; throws when none does. */
  getSandboxId: (caller: Caller, sandboxName: string) => Promise<string>;
  address: AddressSettings;
  region: string;
};

type Named = { sandboxName: string; previewName: string };

export class PreviewService {
  readonly #store: PreviewStore;
  readonly #tokens: TokenStore;
  readonly #tokenValues: TokenValues;
  readonly #getSandboxId: PreviewServiceOptions["getSandboxId"];
  readonly #address: AddressSettings;
  readonly #region: string;

  constructor({ store, tokens, tokenValues, getSandboxId, address, region }: PreviewServiceOptions) {
    this.#store = store;
    this.#tokens = tokens;
    this.#tokenValues = tokenValues;
    this.#getSandboxId = getSandboxId;
    this.#address = address;
    this.#region = region;
  }

  async list(caller: Caller, sandboxName: string): Promise<Preview[]> {
    const records = await this.#store.list(await this.#getSandboxId(caller, sandboxName));
    return records.map((record) => this.#present(record, caller, sandboxName));
  }

  async get(caller: Caller, named: Named): Promise<Preview> {
    return this.#present(await this.#getRecord(caller, named), caller, named.sandboxName);
  }

  async create(caller: Caller, sandboxName: string, input: PreviewInput, force: boolean): Promise<Preview> {
    const { workspaceId, principalName } = caller;
    const now = Date.now();
    const draft = draftPreview(input, now, now);
    const sandboxId = await this.#getSandboxId(caller, sandboxName);
    const { name } = input.metadata;
    const at = new Date(now).toISOString();
    const record: PreviewRecord = {
      ...draft,
      id: randomToken(16),
      workspaceId,
      sandboxId,
      name,
      revision: 1,
      label: formatPreviewLabel({ workspaceId, sandboxName, previewName: name }, draft.spec.prefixUrl),
      events: appendEvent([], at, 1, "The preview was created"),
      createdAt: at,
      updatedAt: at,
      createdBy: principalName,
      updatedBy: principalName,
    };
    await this.#store.insert(record, force);
    return this.#present(record, caller, sandboxName);
  }

  async update(caller: Caller, named: Named, input: PreviewInput): Promise<Preview> {
    const { sandboxName, previewName } = named;
    const { workspaceId, principalName } = caller;
    for (let attempt = 0; attempt < changeAttemptsMax; attempt++) {
      const record = await this.#getRecord(caller, named);
      if (input.metadata.name !== previewName) {
        throw new AppError("invalid_request", "metadata.name must be the name in the path: it cannot change");
      }
      const now = Date.now();
      const draft = draftPreview(input, Date.parse(record.createdAt), now);
      const at = new Date(now).toISOString();
      const revision = record.revision + 1;
      const changed: PreviewRecord = {
        ...record,
        ...draft,
        revision,
        label: formatPreviewLabel({ workspaceId, sandboxName, previewName }, draft.spec.prefixUrl),
        events: appendEvent(record.events, at, revision, "The preview was changed"),
        updatedAt: at,
        updatedBy: principalName,
      };
      if (await this.#store.replace(changed)) return this.#present(changed, caller, sandboxName);
    }
    throw new AppError("conflict", "The preview is being changed by others; try again.");
  }

  /** Resolves once nothing is served at its address any more. */
  async delete(caller: Caller, named: Named): Promise<Preview> {
    const record = await this.#getRecord(caller, named);
    if (!(await this.#store.remove(caller.workspaceId, record.id))) throw notFound();
    return { ...this.#present(record, caller, named.sandboxName), status: "TERMINATED" };
  }

  /** With the values for those who may make tokens: whoever may only read a sandbox must not come to run programs in it. */
  async listTokens(caller: Caller, named: Named): Promise<PreviewToken[]> {
    const { id } = await this.#getRecord(caller, named);
    const place = { ...named, workspace: caller.workspace };
    const maySee = covers(caller.scopes, createSandboxPreviewToken.scope);
    return (await this.#tokens.list(id)).map((row) =>
      presentToken(row, named.previewName, place, maySee ? this.#tokenValues.find(row) : undefined),
    );
  }

  async createToken(caller: Caller, named: Named, { metadata, spec }: PreviewTokenInput): Promise<PreviewToken> {
    const { id } = await this.#getRecord(caller, named);
    const now = Date.now();
    const expires = spec?.expiresAt;
    const value = generateSecret("previewToken");
    const row = {
      workspace_id: caller.workspaceId,
      preview_id: id,
      name: metadata.name,
      token_hash: hashSecret(value),
      sealed_value: this.#tokenValues.seal(id, metadata.name, value),
      expires_at: expires === undefined ? null : new Date(readFuture("spec.expiresAt", expires, now)).toISOString(),
      created_at: new Date(now).toISOString(),
      created_by: caller.principalName,
    };
    const insertion = await this.#tokens.insert(row);
    if (insertion === "preview_gone") throw notFound();
    if (insertion === "name_taken") throw new AppError("already_exists", "A token of this name exists already.");
    if (insertion === "too_many") {
      throw new AppError("invalid_request", `A preview has at most ${tokensPerPreviewMax} tokens: revoke one first.`, {
        details: { error: "quota_exceeded" },
      });
    }
    return presentToken(row, named.previewName, { ...named, workspace: caller.workspace }, value);
  }

  /** Resolves once no request is accepted with it any more. */
  async deleteToken(caller: Caller, named: Named, valueOrName: string): Promise<{ message: string }> {
    const { id } = await this.#getRecord(caller, named);
    // Names have no underscore, values do.
    const by = isName(valueOrName) ? { name: valueOrName } : { token_hash: hashSecret(valueOrName) };
    if (await this.#tokens.remove(id, by)) return { message: "The token is revoked." };
    throw new AppError("not_found", "There is no such token.");
  }

  async #getRecord(caller: Caller, { sandboxName, previewName }: Named): Promise<PreviewRecord> {
    const sandboxId = await this.#getSandboxId(caller, sandboxName);
    const record = isName(previewName) ? await this.#store.find(sandboxId, previewName) : undefined;
    if (record === undefined) throw notFound();
    return record;
  }

  #present(record: PreviewRecord, { workspace }: Caller, sandboxName: string): Preview {
    const url = formatPreviewUrl(this.#address, record.label);
    return presentPreview(record, { sandboxName, workspace }, { url, region: this.#region });
  }
}

function notFound(): AppError {
  return new AppError("not_found", "There is no preview of this name.");
}
