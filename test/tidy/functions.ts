// Finds functions and their lengths in blanked code: a scanner of braces, not a parser, exact enough for formatted files.
import { blankNonCode, lineAt } from "./source.ts";

/** `ownLines`: without the functions inside. */
export type FunctionSpan = { line: number; lines: number; ownLines: number; header: string };

/** Every function body of a TypeScript or JavaScript file with the line it begins on. */
export function findFunctions(text: string): FunctionSpan[] {
  const code = blankNonCode(text);
  const open: { at: number; header: string | undefined; innerLines: number }[] = [];
  const found: FunctionSpan[] = [];
  for (let index = 0; index < code.length; index += 1) {
    if (code[index] === "{") open.push({ at: index, header: functionHeader(code, index), innerLines: 0 });
    if (code[index] !== "}") continue;
    const start = open.pop();
    if (start === undefined) continue;
    const line = lineAt(text, start.at);
    const lines = lineAt(text, index) - line + 1;
    const outer = open.at(-1);
    if (outer !== undefined) outer.innerLines += start.header === undefined ? start.innerLines : lines;
    if (start.header === undefined) continue;
    found.push({ line, lines, ownLines: lines - start.innerLines, header: start.header });
  }
  return found;
}

/** What stands before a brace, on its line, when the brace begins a function; undefined for blocks, objects and types. */
function functionHeader(code: string, brace: number): string | undefined {
  const before = code.slice(Math.max(0, brace - 600), brace).trimEnd();
  const line = code.slice(code.lastIndexOf("\n", brace) + 1, brace).trim();
  if (before.endsWith("=>")) return line;
  // A parameter list, perhaps followed by a return type without braces.
  const match = /\)(?:\s*:\s*[^;={}]+)?$/.exec(before);
  if (match === null) return undefined;
  const opening = matchingParenthesis(before, match.index);
  const word = /([\w$#]+)\s*(?:<[^()]*>)?\s*$/.exec(before.slice(0, opening))?.[1] ?? "";
  return ["if", "for", "while", "switch", "catch", "with"].includes(word) ? undefined : `${word} ${line}`;
}

function matchingParenthesis(text: string, closing: number): number {
  let depth = 0;
  for (let index = closing; index >= 0; index -= 1) {
    if (text[index] === ")") depth += 1;
    if (text[index] === "(") depth -= 1;
    if (depth === 0) return index;
  }
  return 0;
}

/** Functions of a C file in the project's format, where a body begins behind its header and ends in the first column. */
export function findCFunctions(text: string): FunctionSpan[] {
  const lines = text.split("\n");
  const found: FunctionSpan[] = [];
  let start: { line: number; header: string } | undefined;
  for (const [index, line] of lines.entries()) {
    const isBody =
      /^(?!typedef|struct|union|enum|extern)\S.*\)\s*\{$/.test(line) ||
      (line === "{" && /\)\s*$/.test(lines[index - 1] ?? ""));
    if (isBody) start = { line: index + 1, header: line === "{" ? (lines[index - 1] ?? "") : line };
    if (line !== "}" || start === undefined) continue;
    const length = index + 1 - start.line + 1;
    found.push({ ...start, lines: length, ownLines: length });
    start = undefined;
  }
  return found;
}
