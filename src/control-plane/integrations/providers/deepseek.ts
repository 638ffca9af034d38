// DeepSeek: OpenAI's interface without times and context windows.
import { openAiCompatible } from "./openai-compatible.ts";

export const deepSeek = openAiCompatible({
  kind: "deepseek",
  usualUrl: "https://api.deepseek.com",
  secretKeys: ["apiKey", "DEEPSEEK_API_KEY"],
});
