// Services that speak OpenAI's interface: models are at `/models` in one piece, times are seconds since 1970.
import type { ConnectionModel } from "../../../contract/integration.ts";
import type { Texts } from "../record.ts";
import { listOf, type Members, textOf, timeOf, tokensOf } from "./answer.ts";
import { bearer, type Provider, readBaseUrl } from "./provider.ts";

export type OpenAiCompatibleOptions = {
  /** The kind, and the provider of models whose maker the service does not name. */
  kind: string;
  /** Undefined when `baseUrl` has to be given. */
  usualUrl: string | undefined;
  secretKeys: readonly string[];
  configKeys?: readonly string[];
  headers?: (config: Texts) => Texts;
  isOpen?: (config: Texts) => boolean;
  /** Whether `owned_by` names who made a model, rather than who owns a copy of it. */
  namesMakers?: boolean;
  contextWindowOf?: (model: Members) => number | undefined;
  /** Besides chat. */
  operations?: Readonly<Record<string, string>>;
};

export function openAiCompatible(options: OpenAiCompatibleOptions): Provider {
  const { kind, usualUrl, secretKeys, configKeys = [], headers, isOpen, namesMakers = false } = options;
  const { contextWindowOf = usualContextWindow, operations = {} } = options;
  const baseUrl = (config: Texts): string => readBaseUrl(config, "baseUrl", usualUrl);
  const readModel = (model: Members): ConnectionModel[] => {
    const id = textOf(model.id);
    if (id === undefined) return [];
    return [
      {
        id,
        name: textOf(model.name) ?? id,
        provider: (namesMakers ? textOf(model.owned_by) : undefined) ?? kind,
        createdAt: timeOf(model.created),
        contextWindow: contextWindowOf(model),
      },
    ];
  };
  return {
    addressKey: "baseUrl",
    usualUrl,
    configKeys,
    secretKeys,
    baseUrl,
    ...(isOpen && { isOpen }),
    headers: (config, credential) => ({ ...bearer(credential), ...headers?.(config) }),
    listModels: async (ask) => listOf(await ask("/models"), "data").flatMap(readModel),
    endpoints: (config) =>
      Object.entries({ chat: "/chat/completions", ...operations }).map(([name, path]) => ({
        name,
        method: "POST",
        url: `${baseUrl(config)}${path}`,
        ...(headers && { headers: headers(config) }),
      })),
  };
}

/** The names that servers of this interface have given it; OpenAI itself does not say it. */
function usualContextWindow(model: Members): number | undefined {
  return tokensOf(
    model.context_length,
    model.context_window,
    model.max_context_length,
    model.max_model_len,
    model.context_size,
    model.max_prompt_length,
  );
}
