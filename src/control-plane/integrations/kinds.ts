// The kinds of services a connection can be for: one line each. Kinds without models only keep credentials.
import type { Provider } from "./providers/provider.ts";

export type Kind = {
  name: string;
  displayName: string;
  /** Keys of `spec.secret` that are usual, where nothing here reads them. */
  secretKeys: readonly string[];
  models?: Provider;
};

const kinds: readonly Kind[] = [
  { name: "agentmail", displayName: "AgentMail", secretKeys: ["apiKey"] },
  { name: "github", displayName: "GitHub", secretKeys: ["token"] },
  { name: "gmail", displayName: "Gmail", secretKeys: ["CLIENT_ID", "CLIENT_SECRET", "REFRESH_TOKEN"] },
  { name: "google-maps", displayName: "Google Maps", secretKeys: ["apiKey"] },
  { name: "rippletide", displayName: "Rippletide", secretKeys: ["apiKey"] },
  { name: "slack", displayName: "Slack", secretKeys: ["token"] },
];

const byName = new Map(kinds.map((kind) => [kind.name, kind]));

export const kindNames: readonly string[] = kinds.map(({ name }) => name).sort();

export function findKind(name: string): Kind | undefined {
  return byName.get(name);
}
