// Reads the project's own files for the tidiness tests, and blanks what is not code in them.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const projectRoot = join(import.meta.dirname, "../..");

export type SourceFile = { path: string; text: string };

/** Files below the given folders with one of the endings, as paths relative to the project. */
export function readSources(folders: readonly string[], endings: readonly string[]): SourceFile[] {
  const patterns = folders.flatMap((folder) => endings.map((ending) => `${folder}/**/*${ending}`));
  return globSync(patterns, { cwd: projectRoot, exclude: ["**/node_modules/**", "guest/build/**", "bench/results/**"] })
    .sort()
    .map((path) => ({ path, text: readFileSync(join(projectRoot, path), "utf8") }));
}

export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

/** The same text with comments, strings, templates and regular expressions turned to blanks: every position keeps its meaning. */
export function blankNonCode(text: string): string {
  // By code unit, as positions in a text are counted.
  const out = text.split("");
  const blank = (from: number, to: number): void => {
    for (let index = from; index < to; index += 1) if (out[index] !== "\n") out[index] = " ";
  };
  /** Depth of braces at which a template's `${` began, innermost last. */
  const templates: number[] = [];
  let depth = 0;
  let index = 0;
  while (index < text.length) {
    const end = endOfNonCode(text, index);
    if (end !== undefined) {
      blank(index, end);
      index = end;
      continue;
    }
    const char = text[index];
    if (char === "{") depth += 1;
    if (char === "}") depth -= 1;
    const closesExpression = char === "}" && templates.at(-1) === depth;
    if (char === "`" || closesExpression) {
      if (closesExpression) templates.pop();
      const stop = endOfTemplate(text, index + 1);
      blank(index, stop.at);
      if (stop.opens) {
        templates.push(depth);
        depth += 1;
      }
      index = stop.at;
      continue;
    }
    index += 1;
  }
  return out.join("");
}

/** Where a comment, string or regular expression that begins here ends; undefined when none begins here. */
function endOfNonCode(text: string, at: number): number | undefined {
  const rest = text.slice(at, at + 2);
  if (rest === "//" || (rest === "#!" && at === 0)) return endOf(text, /\n|$/g, at);
  if (rest === "/*") return text.indexOf("*/", at + 2) + 2;
  if (rest[0] === '"') return endOf(text, /(?<!\\)(?:\\\\)*"/g, at + 1);
  if (rest[0] === "'") return endOf(text, /(?<!\\)(?:\\\\)*'/g, at + 1);
  const isExpression =
    rest[0] === "/" &&
    /(?:^|[=(,:[!&|?{};+\n]|\b(?:return|typeof|case))\s*$/.test(text.slice(Math.max(0, at - 40), at));
  return isExpression ? endOf(text, /(?<!\\)(?:\\\\)*\/[a-z]*/g, at + 1, /(?<!\\)\[(?:\\.|[^\]\\\n])*\]/g) : undefined;
}

/** End of the first match of `pattern` at or after `from` that lies outside every match of `skip`. */
function endOf(text: string, pattern: RegExp, from: number, skip?: RegExp): number {
  let start = from;
  for (;;) {
    pattern.lastIndex = start;
    const match = pattern.exec(text);
    if (match === null) return text.length;
    const inside = skip === undefined ? undefined : enclosing(text, skip, from, match.index);
    if (inside === undefined) return pattern.lastIndex;
    start = inside;
  }
}

function enclosing(text: string, skip: RegExp, from: number, at: number): number | undefined {
  skip.lastIndex = from;
  for (let match = skip.exec(text); match !== null && match.index <= at; match = skip.exec(text)) {
    if (skip.lastIndex > at) return skip.lastIndex;
  }
  return undefined;
}

/** Where a template's text ends that goes on at `from`: behind its closing mark, or behind the `${` that opens an expression. */
function endOfTemplate(text: string, from: number): { at: number; opens: boolean } {
  for (let index = from; index < text.length; index += 1) {
    if (text[index] === "\\") index += 1;
    else if (text[index] === "`") return { at: index + 1, opens: false };
    else if (text[index] === "$" && text[index + 1] === "{") return { at: index + 2, opens: true };
  }
  return { at: text.length, opens: false };
}
