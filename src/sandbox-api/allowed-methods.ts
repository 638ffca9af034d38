// Which methods a path takes, asked when a request matched none.

import { sandboxOperations } from "../contract/operations.ts";

const patterns = sandboxOperations.map(({ method, path }) => ({ method, pattern: toPattern(path) }));

export function allowedMethods(url: string): string[] {
  const path = url.split("?", 1)[0]!;
  const methods = new Set<string>();
  for (const { method, pattern } of patterns) {
    if (!pattern.test(path)) continue;
    methods.add(method);
    if (method === "GET") methods.add("HEAD");
  }
  return [...methods].sort();
}

/** `:name` stands for one segment, a final `*` for everything that follows. */
function toPattern(path: string): RegExp {
  const source = path
    .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replace(/:\w+/g, "[^/]+")
    .replace("/*", "(?:/.*)?");
  return new RegExp(`^${source}$`, "s");
}
