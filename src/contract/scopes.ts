// Every scope a credential can be granted (spec section 5), and those that operations need although the specification's list lacks them.

function scopesOf(noun: string, verbs: string): string[] {
  return verbs.split("|").map((verb) => `${noun}:${verb}`);
}

const crud = "create|delete|get|list|update";

/** Covers every other scope. */
export const adminScope = "admin";

export const scopes: readonly string[] = [
  adminScope,
  ...scopesOf("agents", crud),
  ...scopesOf("apiKey", "list|write"),
  ...scopesOf("applications", crud),
  ...scopesOf("configurations", "list"),
  ...scopesOf("customdomains", crud),
  ...scopesOf("featureFlags", "list|get"),
  ...scopesOf("functions", crud),
  ...scopesOf("images", crud),
  ...scopesOf("integrations", crud),
  ...scopesOf("invitations", "list"),
  ...scopesOf("jobs", crud),
  ...scopesOf("locations", "list"),
  ...scopesOf("mcphub", "list"),
  ...scopesOf("models", crud),
  ...scopesOf("policies", crud),
  ...scopesOf("sandboxes", "control|create|delete|get|list|update"),
  ...scopesOf("sandboxhub", "list"),
  ...scopesOf("templates", "get|list"),
  ...scopesOf("volumeTemplates", "create|delete|get|list|upsert"),
  ...scopesOf("volumes", crud),
  ...scopesOf("workspaces", "accept|create|decline|delete|get|invite|leave|list|remove|update"),
];
