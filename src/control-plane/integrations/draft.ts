// From what a caller sends to what a connection will be: rules that a schema cannot state, and which secret values stay.
import { connectionSecretMask, type IntegrationConnectionInput } from "../../contract/integration.ts";
import { AppError } from "../../core/errors.ts";
import { OutgoingError } from "../outgoing/failure.ts";
import type { OutgoingPolicy } from "../outgoing/policy.ts";
import { findKind, kindNames } from "./kinds.ts";
import type { Provider } from "./providers/provider.ts";
import type { ConnectionRecord, Texts } from "./record.ts";

/** Of keys and values of both maps together. */
const connectionMaxBytes = 131_072;

export type Draft = Pick<
  ConnectionRecord,
  "displayName" | "externalId" | "labels" | "integration" | "sandbox" | "config"
> & { secret: Texts | undefined };

/** The connection as it is before a change. */
export type Kept = { integration: string | undefined; config: Texts | undefined; secret: Texts | undefined };

/** Messages name keys and never show values. */
export function draftConnection(
  { metadata, spec }: IntegrationConnectionInput,
  policy: OutgoingPolicy,
  kept?: Kept,
): Draft {
  const { displayName, externalId, labels } = metadata;
  const { integration, sandbox, config } = spec;
  const kind = integration === undefined ? undefined : findKind(integration);
  if (integration !== undefined && kind === undefined)
    reject("spec.integration", `must be one of ${kindNames.join(", ")}`);
  if (kind?.models !== undefined) requireAddress(kind.models, config ?? {}, policy);
  const secret = mergeSecret(spec, kept);
  const bytes = countBytes(config) + countBytes(secret);
  if (bytes > connectionMaxBytes)
    reject("spec.config and spec.secret", `must have at most ${connectionMaxBytes} bytes together`);
  return { displayName, externalId, labels, integration, sandbox, config, secret };
}

/** An address that can never be asked is refused at once; one that is missing only when it is needed. */
function requireAddress(models: Provider, config: Texts, policy: OutgoingPolicy): void {
  const { addressKey } = models;
  if (config[addressKey] === undefined) return;
  try {
    policy.requireUrl(models.baseUrl(config));
  } catch (error) {
    if (error instanceof OutgoingError) reject(`spec.config.${addressKey}`, error.message);
    throw error;
  }
}

/** Without the map every value stays; with it those that are not in it go, and those that are the mask stay. */
function mergeSecret(spec: IntegrationConnectionInput["spec"], kept: Kept | undefined): Texts | undefined {
  const given = spec.secret ?? (kept?.secret && mapValues(kept.secret, () => connectionSecretMask));
  if (given === undefined) return undefined;
  const movedTo = kept && describeMove(kept, spec);
  return mapValues(given, (value, key) => {
    if (value !== connectionSecretMask) return value;
    const field = `spec.secret.${key}`;
    if (kept?.secret === undefined || !Object.hasOwn(kept.secret, key)) {
      reject(field, "must be the value itself, not the mask shown in answers");
    }
    // Otherwise whoever may change a connection could have a secret sent to a server of their own, and so read it.
    if (movedTo !== undefined) reject(field, `must be given again, because ${movedTo} changes`);
    return kept.secret[key]!;
  });
}

/** What makes the credentials go elsewhere, if anything does. */
function describeMove(from: Kept, to: IntegrationConnectionInput["spec"]): string | undefined {
  if (from.integration !== to.integration) return "spec.integration";
  const key = to.integration === undefined ? undefined : findKind(to.integration)?.models?.addressKey;
  const moved = key !== undefined && from.config?.[key] !== to.config?.[key];
  return moved ? `spec.config.${key}` : undefined;
}

function mapValues(texts: Texts, change: (value: string, key: string) => string): Texts {
  return Object.fromEntries(Object.entries(texts).map(([key, value]) => [key, change(value, key)]));
}

function countBytes(texts: Texts | undefined): number {
  return Object.entries(texts ?? {}).reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value),
    0,
  );
}

function reject(field: string, rule: string): never {
  throw new AppError("invalid_request", `${field} ${rule}`);
}
