// Hugging Face's router: OpenAI's interface; each model is served by several services, which differ in the context they take.
import { type Members, membersOf, tokensOf } from "./answer.ts";
import { openAiCompatible } from "./openai-compatible.ts";

/** What the most capable of those that serve it takes. */
function contextWindowOf({ providers }: Members): number | undefined {
  if (!Array.isArray(providers)) return undefined;
  const windows = providers.map((served) => tokensOf(membersOf(served).context_length) ?? 0);
  return tokensOf(windows.reduce((largest, window) => Math.max(largest, window), 0));
}

export const huggingFace = openAiCompatible({
  kind: "huggingface",
  usualUrl: "https://router.huggingface.co/v1",
  secretKeys: ["apiKey", "accessToken", "token", "HF_TOKEN"],
  namesMakers: true,
  contextWindowOf,
});
