// Anthropic: the credential has a header of its own, the interface a version, and pages continue after the last id.
import type { ConnectionModel } from "../../../contract/integration.ts";
import type { Texts } from "../record.ts";
import { listOf, type Members, membersOf, textOf, timeOf, tokensOf } from "./answer.ts";
import { keyHeader, type Provider, readBaseUrl, readHeaderText, readPages } from "./provider.ts";

const usualUrl = "https://api.anthropic.com";
const pageSize = 100;

function readModel(model: Members): ConnectionModel[] {
  const id = textOf(model.id);
  if (id === undefined) return [];
  return [
    {
      id,
      name: textOf(model.display_name) ?? id,
      provider: "anthropic",
      createdAt: timeOf(model.created_at),
      contextWindow: tokensOf(model.max_input_tokens),
    },
  ];
}

function version(config: Texts): Texts {
  return { "anthropic-version": readHeaderText(config, "version") ?? "2023-06-01" };
}

/** Given with or without the version of its paths. */
function baseUrl(config: Texts): string {
  return readBaseUrl(config, "baseUrl", usualUrl).replace(/\/v1$/, "");
}

export const anthropic: Provider = {
  addressKey: "baseUrl",
  usualUrl,
  configKeys: ["version"],
  secretKeys: ["apiKey", "ANTHROPIC_API_KEY"],
  baseUrl,
  headers: (config, credential) => ({ ...keyHeader("x-api-key", credential), ...version(config) }),
  listModels: (ask) =>
    readPages(async (afterId) => {
      const after = afterId === undefined ? "" : `&after_id=${encodeURIComponent(afterId)}`;
      const answer = await ask(`/v1/models?limit=${pageSize}${after}`);
      const { has_more, last_id } = membersOf(answer);
      return {
        models: listOf(answer, "data").flatMap(readModel),
        next: has_more === true ? textOf(last_id) : undefined,
      };
    }),
  endpoints: (config) =>
    Object.entries({ messages: "/v1/messages", countTokens: "/v1/messages/count_tokens" }).map(([name, path]) => ({
      name,
      method: "POST",
      url: `${baseUrl(config)}${path}`,
      headers: version(config),
    })),
};
