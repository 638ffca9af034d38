// Mistral: OpenAI's interface, with the context window and a list of other names of each model.
import { openAiCompatible } from "./openai-compatible.ts";

export const mistral = openAiCompatible({
  kind: "mistral",
  usualUrl: "https://api.mistral.ai/v1",
  secretKeys: ["apiKey", "MISTRAL_API_KEY"],
  operations: { fim: "/fim/completions", embeddings: "/embeddings" },
});
