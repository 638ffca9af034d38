// Gemini: names begin with `models/`, pages continue with a token, and the key goes in a header rather than in the URL, which gets logged.
import type { ConnectionModel } from "../../../contract/integration.ts";
import type { Texts } from "../record.ts";
import { listOf, type Members, membersOf, textOf, tokensOf } from "./answer.ts";
import { keyHeader, type Provider, readBaseUrl, readPages } from "./provider.ts";

const usualUrl = "https://generativelanguage.googleapis.com";
const pageSize = 1_000;
const tokenMaxLength = 1_024;

function readModel(model: Members): ConnectionModel[] {
  const id = textOf(model.name)?.replace(/^models\//, "");
  if (id === undefined) return [];
  return [
    {
      id,
      name: textOf(model.displayName) ?? id,
      provider: "gemini",
      contextWindow: tokensOf(model.inputTokenLimit),
    },
  ];
}

/** Given with or without the version of its paths. */
function baseUrl(config: Texts): string {
  return readBaseUrl(config, "baseUrl", usualUrl).replace(/\/v1(beta)?$/, "");
}

export const gemini: Provider = {
  addressKey: "baseUrl",
  usualUrl,
  configKeys: [],
  secretKeys: ["apiKey", "GEMINI_API_KEY", "GOOGLE_API_KEY"],
  baseUrl,
  headers: (_config, credential) => keyHeader("x-goog-api-key", credential),
  listModels: (ask) =>
    readPages(async (token) => {
      const page = token === undefined ? "" : `&pageToken=${encodeURIComponent(token)}`;
      const answer = await ask(`/v1beta/models?pageSize=${pageSize}${page}`);
      const { models, nextPageToken: next } = membersOf(answer);
      return {
        // An empty page has no list.
        models: models === undefined ? [] : listOf(answer, "models").flatMap(readModel),
        next: typeof next === "string" && next !== "" && next.length <= tokenMaxLength ? next : undefined,
      };
    }),
  endpoints: (config) =>
    ["generateContent", "streamGenerateContent", "countTokens"].map((name) => ({
      name,
      method: "POST",
      url: `${baseUrl(config)}/v1beta/models/{model}:${name}`,
    })),
};
