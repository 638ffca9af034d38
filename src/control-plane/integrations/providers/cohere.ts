// Cohere: a model is known by its name, pages continue with a token, and no times are given.
import type { ConnectionModel } from "../../../contract/integration.ts";
import type { Texts } from "../record.ts";
import { listOf, type Members, membersOf, textOf, tokensOf } from "./answer.ts";
import { bearer, type Provider, readBaseUrl, readPages } from "./provider.ts";

const usualUrl = "https://api.cohere.com";
const pageSize = 100;
const tokenMaxLength = 1_024;

function readModel(model: Members): ConnectionModel[] {
  const name = textOf(model.name);
  if (name === undefined) return [];
  return [{ id: name, name, provider: "cohere", contextWindow: tokensOf(model.context_length) }];
}

/** Given with or without the version of its paths, which differs between operations. */
function baseUrl(config: Texts): string {
  return readBaseUrl(config, "baseUrl", usualUrl).replace(/\/v[12]$/, "");
}

export const cohere: Provider = {
  addressKey: "baseUrl",
  usualUrl,
  configKeys: [],
  secretKeys: ["apiKey", "CO_API_KEY", "COHERE_API_KEY"],
  baseUrl,
  headers: (_config, credential) => bearer(credential),
  listModels: (ask) =>
    readPages(async (token) => {
      const page = token === undefined ? "" : `&page_token=${encodeURIComponent(token)}`;
      const answer = await ask(`/v1/models?page_size=${pageSize}${page}`);
      const { next_page_token: next } = membersOf(answer);
      return {
        models: listOf(answer, "models").flatMap(readModel),
        next: typeof next === "string" && next !== "" && next.length <= tokenMaxLength ? next : undefined,
      };
    }),
  endpoints: (config) =>
    Object.entries({ chat: "/v2/chat", embed: "/v2/embed", rerank: "/v2/rerank" }).map(([name, path]) => ({
      name,
      method: "POST",
      url: `${baseUrl(config)}${path}`,
    })),
};
