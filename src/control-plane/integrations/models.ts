// The models a connection's service offers: asked for with the connection's credential, remembered for a moment, never too many at once.
import type { ConnectionModel, EndpointConfiguration } from "../../contract/integration.ts";
import { BoundedMap } from "../../core/bounded-map.ts";
import { AppError } from "../../core/errors.ts";
import type { Caller } from "../auth/caller.ts";
import type { Outgoing } from "../outgoing/outgoing.ts";
import { askProvider } from "./ask.ts";
import { findKind, type Kind, modelKindNames } from "./kinds.ts";
import type { Provider } from "./providers/provider.ts";
import type { ConnectionRecord, Texts } from "./record.ts";
import type { ConnectionService } from "./service.ts";

const rememberedMax = 100;
const rememberedMs = 60_000;
const runningMax = 32;
const runningPerWorkspaceMax = 4;
/** Services count what is asked of them, and so is what one workspace may have asked in a minute. */
const perMinuteMax = 30;
const minuteMs = 60_000;
const workspacesMax = 10_000;
const credentialMaxLength = 8_192;

type Remembered = { models: readonly ConnectionModel[]; until: number };

export type ConnectionModelsOptions = { connections: ConnectionService; outgoing: Outgoing };

export class ConnectionModels {
  readonly #connections: ConnectionService;
  readonly #outgoing: Outgoing;
  /** By connection and revision, so that a change is noticed at once. */
  readonly #remembered = new BoundedMap<string, Remembered>(rememberedMax);
  readonly #running = new Map<string, { workspaceId: string; answer: Promise<readonly ConnectionModel[]> }>();
  readonly #asked = new BoundedMap<string, { since: number; count: number }>(workspacesMax);

  constructor({ connections, outgoing }: ConnectionModelsOptions) {
    this.#connections = connections;
    this.#outgoing = outgoing;
  }

  async list(caller: Caller, name: string): Promise<readonly ConnectionModel[]> {
    const record = await this.#connections.get(caller, name);
    const { kind, models } = requireModels(record);
    const key = `${record.id}:${record.revision}`;
    const remembered = this.#remembered.get(key);
    if (remembered !== undefined && remembered.until > performance.now()) return remembered.models;
    const running = this.#running.get(key);
    if (running !== undefined) return running.answer;
    const credential = readCredential(kind, models, record.config ?? {}, this.#connections.openSecret(record));
    this.#admit(record.workspaceId);
    const { displayName } = kind;
    const answer = askProvider({
      displayName,
      models,
      config: record.config ?? {},
      credential,
      outgoing: this.#outgoing,
    })
      .then((found) => {
        this.#remembered.set(key, { models: found, until: performance.now() + rememberedMs });
        return found;
      })
      .finally(() => this.#running.delete(key));
    this.#running.set(key, { workspaceId: record.workspaceId, answer });
    return answer;
  }

  async get(caller: Caller, name: string, modelId: string): Promise<ConnectionModel> {
    const found = (await this.list(caller, name)).find(({ id }) => id === modelId);
    if (found === undefined) throw new AppError("not_found", "The connection's service lists no model of this id.");
    return found;
  }

  async endpoints(caller: Caller, name: string): Promise<EndpointConfiguration[]> {
    const record = await this.#connections.get(caller, name);
    const kind = record.integration === undefined ? undefined : findKind(record.integration);
    return kind?.models?.endpoints(record.config ?? {}) ?? [];
  }

  #admit(workspaceId: string): void {
    const running = [...this.#running.values()];
    const own = running.filter((each) => each.workspaceId === workspaceId).length;
    const now = performance.now();
    const counted = this.#asked.get(workspaceId);
    const asked = counted !== undefined && now - counted.since < minuteMs ? counted : { since: now, count: 0 };
    if (own >= runningPerWorkspaceMax || asked.count >= perMinuteMax) {
      throw new AppError(
        "rate_limited",
        `A workspace may ask services for their models ${perMinuteMax} times a minute and ${runningPerWorkspaceMax} times at once.`,
      );
    }
    if (running.length >= runningMax) {
      throw new AppError("unavailable", "Too many lists of models are being asked for; try again.");
    }
    asked.count++;
    this.#asked.set(workspaceId, asked);
  }
}

function requireModels({ integration }: ConnectionRecord): { kind: Kind; models: Provider } {
  const kind = integration === undefined ? undefined : findKind(integration);
  if (kind?.models !== undefined) return { kind, models: kind.models };
  const what =
    integration === undefined ? "A connection without spec.integration" : `${kind?.displayName ?? integration}`;
  throw new AppError("invalid_request", `${what} has no models; those that have are ${modelKindNames.join(", ")}.`);
}

function readCredential(kind: Kind, models: Provider, config: Texts, secret: Texts = {}): string | undefined {
  const key = models.secretKeys.find((each) => Object.hasOwn(secret, each) && secret[each] !== "");
  if (key === undefined) {
    if (models.isOpen?.(config)) return undefined;
    const [first, ...others] = models.secretKeys;
    const also = others.length === 0 ? "" : ` (or ${others.join(", ")})`;
    throw new AppError(
      "invalid_request",
      `spec.secret.${first}${also} is required to ask ${kind.displayName} for its models`,
    );
  }
  const credential = secret[key]!;
  if (credential.length <= credentialMaxLength && /^[\x21-\x7e]+$/.test(credential)) return credential;
  throw new AppError(
    "invalid_request",
    `spec.secret.${key} must be 1 to ${credentialMaxLength} visible ASCII characters to be sent to ${kind.displayName}`,
  );
}
