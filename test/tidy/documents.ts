// Finds the paths of this project that a document names, in code spans and in links.
import { existsSync, globSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { projectRoot } from "./source.ts";

const roots = "src|test|docs|scripts|images|guest|bench|bin|console|openapi|\\.ci";

/** Paths a document names that do not exist. */
export function missingPaths(document: string, text: string): string[] {
  const named = new Set<string>();
  for (const [, span] of text.matchAll(/`([^`\n]+)`/g)) {
    for (const [path] of span!.matchAll(new RegExp(`(?<![\\w./~-])(?:${roots})/[\\w./*@-]*`, "g"))) named.add(path);
  }
  for (const [, target] of text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)) {
    if (!/^[a-z]+:/.test(target!)) named.add(normalize(join(dirname(document), target!)));
  }
  return [...named].filter((path) => !exists(path.replace(/[.:]$/, "")));
}

function exists(path: string): boolean {
  if (path.includes("*")) return globSync(path, { cwd: projectRoot }).length > 0;
  // What a build makes is not there before it ran.
  return path.startsWith("guest/build") || path.startsWith("bench/results") || existsSync(join(projectRoot, path));
}
