// Which methods a path takes, asked when a request matched none.

import type { Endpoint } from "../contract/endpoint.ts";
import * as filesystem from "../contract/sandbox-api/filesystem.ts";
import * as health from "../contract/sandbox-api/health.ts";
import * as multipart from "../contract/sandbox-api/multipart.ts";
import * as processes from "../contract/sandbox-api/process.ts";

/** Every declared operation of the sandbox API. */
export const sandboxEndpoints: readonly Endpoint[] = [filesystem, health, multipart, processes].flatMap(
  (declarations) => {
    return Object.values(declarations as Record<string, unknown>).filter(isEndpoint);
  },
);

const patterns = sandboxEndpoints.map(({ method, path }) => ({ method, pattern: toPattern(path) }));

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

function isEndpoint(value: unknown): value is Endpoint {
  return typeof value === "object" && value !== null && "method" in value && "scope" in value;
}

/** `:name` stands for one segment, a final `*` for everything that follows. */
function toPattern(path: string): RegExp {
  const source = path
    .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replace(/:\w+/g, "[^/]+")
    .replace("/*", "(?:/.*)?");
  return new RegExp(`^${source}$`, "s");
}
