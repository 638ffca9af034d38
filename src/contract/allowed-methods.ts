// Which methods a path takes, asked when a request matched no operation.
import type { Endpoint } from "./endpoint.ts";

/** Answers with none for a path that names nothing. `url` is relative to where the operations' paths begin. */
export type AllowedMethods = (url: string) => string[];

/** `servesHead`: whether what can be read can also be asked for its head. */
export function allowedMethodsOf(
  operations: Iterable<Pick<Endpoint, "method" | "path">>,
  { servesHead }: { servesHead: boolean },
): AllowedMethods {
  const patterns = [...operations].map(({ method, path }) => ({ method, pattern: toPattern(path) }));
  return (url) => {
    const path = url.split("?", 1)[0]!;
    const methods = new Set<string>();
    for (const { method, pattern } of patterns) {
      if (!pattern.test(path)) continue;
      methods.add(method);
      if (method === "GET" && servesHead) methods.add("HEAD");
    }
    return [...methods].sort();
  };
}

/** `:name` stands for one segment, a final `*` for everything that follows. */
function toPattern(path: string): RegExp {
  const source = path
    .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replace(/:\w+/g, "[^/]+")
    .replace("/*", "(?:/.*)?");
  return new RegExp(`^${source}$`, "s");
}
