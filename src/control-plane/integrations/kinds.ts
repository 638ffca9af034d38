// The kinds of services a connection can be for: one line each. Kinds without models only keep credentials.
import { anthropic } from "./providers/anthropic.ts";
import { azureAiFoundry } from "./providers/azure-ai-foundry.ts";
import { cohere } from "./providers/cohere.ts";
import { deepSeek } from "./providers/deepseek.ts";
import { gemini } from "./providers/gemini.ts";
import { huggingFace } from "./providers/hugging-face.ts";
import { mistral } from "./providers/mistral.ts";
import { openAi, openAiLike } from "./providers/openai.ts";
import type { Provider } from "./providers/provider.ts";
import { xAi } from "./providers/xai.ts";

export type Kind = {
  name: string;
  displayName: string;
  /** Keys of `spec.secret` that hold the credential; where nothing here reads them, the usual ones. */
  secretKeys: readonly string[];
  models?: Provider;
};

const kinds: readonly Kind[] = [
  { name: "agentmail", displayName: "AgentMail", secretKeys: ["apiKey"] },
  offering("anthropic", "Anthropic", anthropic),
  offering("azure-ai-foundry", "Azure AI Foundry", azureAiFoundry),
  offering("cohere", "Cohere", cohere),
  offering("deepseek", "DeepSeek", deepSeek),
  offering("gemini", "Gemini", gemini),
  { name: "github", displayName: "GitHub", secretKeys: ["token"] },
  { name: "gmail", displayName: "Gmail", secretKeys: ["CLIENT_ID", "CLIENT_SECRET", "REFRESH_TOKEN"] },
  { name: "google-maps", displayName: "Google Maps", secretKeys: ["apiKey"] },
  offering("huggingface", "Hugging Face", huggingFace),
  offering("mistral", "Mistral", mistral),
  offering("openai", "OpenAI", openAi),
  offering("openai-compatible", "OpenAI-compatible server", openAiLike),
  { name: "rippletide", displayName: "Rippletide", secretKeys: ["apiKey"] },
  { name: "slack", displayName: "Slack", secretKeys: ["token"] },
  offering("xai", "xAI", xAi),
];

function offering(name: string, displayName: string, models: Provider): Kind {
  return { name, displayName, secretKeys: models.secretKeys, models };
}

const byName = new Map(kinds.map((kind) => [kind.name, kind]));

export const kindNames: readonly string[] = kinds.map(({ name }) => name);
export const modelKindNames: readonly string[] = kinds.filter(({ models }) => models).map(({ name }) => name);

export function findKind(name: string): Kind | undefined {
  return byName.get(name);
}
