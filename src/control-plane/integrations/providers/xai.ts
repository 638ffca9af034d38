// xAI: OpenAI's interface; a refused key is answered with 400.
import { openAiCompatible } from "./openai-compatible.ts";

export const xAi = openAiCompatible({
  kind: "xai",
  usualUrl: "https://api.x.ai/v1",
  secretKeys: ["apiKey", "XAI_API_KEY"],
  operations: { responses: "/responses" },
});
