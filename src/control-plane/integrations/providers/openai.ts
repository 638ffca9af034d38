// OpenAI, and with `baseUrl` every server that speaks its interface.
import type { Texts } from "../record.ts";
import { openAiCompatible } from "./openai-compatible.ts";
import { readHeaderText } from "./provider.ts";

const operations = { responses: "/responses", embeddings: "/embeddings" };

/** The credential may be one of several organizations and projects. */
function headers(config: Texts): Texts {
  const organization = readHeaderText(config, "organization");
  const project = readHeaderText(config, "project");
  return {
    ...(organization !== undefined && { "openai-organization": organization }),
    ...(project !== undefined && { "openai-project": project }),
  };
}

export const openAi = openAiCompatible({
  kind: "openai",
  usualUrl: "https://api.openai.com/v1",
  secretKeys: ["apiKey", "OPENAI_API_KEY"],
  configKeys: ["organization", "project"],
  headers,
  // A server of one's own may ask for none.
  isOpen: (config) => config.baseUrl !== undefined,
  operations,
});

export const openAiLike = openAiCompatible({
  kind: "openai-compatible",
  usualUrl: undefined,
  secretKeys: ["apiKey", "OPENAI_API_KEY"],
  isOpen: () => true,
  namesMakers: true,
  operations: { embeddings: "/embeddings" },
});
