// Searches the contents of files with ripgrep, which runs inside the sandbox: its memory and time are the sandbox's own.
import type { ContentMatch } from "../../contract/sandbox-api/search.ts";
import { AppError } from "../../core/errors.ts";
import type { ToolRuns } from "../tools/tool-runs.ts";
import { MatchParser } from "./match-parser.ts";
import { describeUnsearchable } from "./unsearchable.ts";

const timeoutMs = 30_000;
const fileMaxBytes = "32M";
/** Of a longer line the part around the match is told. */
const lineMaxBytes = 2_000;

export type ContentQuery = {
  query: string;
  /** It is a regular expression; else the text itself. */
  isPattern?: boolean;
  caseSensitive: boolean;
  filePattern: string | undefined;
  excludePattern?: string;
  excludeDirs: readonly string[];
  resultsMax: number;
};

export type ContentSearch = { tools: ToolRuns; program: string; directory: string; signal: AbortSignal };

export async function searchContentsOf(
  { tools, program, directory, signal }: ContentSearch,
  query: ContentQuery,
): Promise<ContentMatch[]> {
  if (query.query.includes("\0")) throw new AppError("invalid_request", "query contains a NUL byte");
  const matches: ContentMatch[] = [];
  if (query.resultsMax === 0) return matches;
  const parser = new MatchParser((match) => matches.push(match));
  const ended = await tools
    .run({
      argv: argumentsFor(program, query),
      workingDir: directory,
      onOutput: (chunk) => {
        parser.push(chunk);
        return matches.length < query.resultsMax;
      },
      timeoutMs,
      signal,
    })
    .catch((error: unknown) => {
      throw describeStartFailure(error, directory);
    });
  const { end, errorText, isCutShort } = ended;
  // 0: something was found; 1: nothing; 2: some files could not be read, or the question made no sense.
  const isAnswered = isCutShort || (end !== undefined && "code" in end && (end.code < 2 || matches.length > 0));
  if (!isAnswered && errorText !== "") throw new AppError("unprocessable", `The search failed: ${reasonOf(errorText)}`);
  if (!isAnswered && end === undefined)
    throw new AppError("unavailable", "The sandbox's init was lost during the search.");
  return matches.slice(0, query.resultsMax);
}

function argumentsFor(program: string, query: ContentQuery): string[] {
  const { isPattern = false, caseSensitive, filePattern, excludePattern = "", excludeDirs } = query;
  const globs = [
    ...(filePattern === undefined || filePattern === "" ? [] : [filePattern]),
    ...(excludePattern === "" ? [] : [`!${excludePattern}`]),
    // For directories of the name alone, which costs less at each file than a pattern of paths.
    ...excludeDirs.map((name) => `!${escapeGlob(name)}/`),
  ];
  return [
    program,
    "--no-config",
    "--color=never",
    "--no-messages",
    "--no-heading",
    "--with-filename",
    "--null",
    "--line-number",
    "--column",
    "--no-ignore",
    "--hidden",
    "--one-file-system",
    "--threads=2",
    `--max-filesize=${fileMaxBytes}`,
    `--max-columns=${lineMaxBytes}`,
    "--max-columns-preview",
    ...(isPattern ? [] : ["--fixed-strings"]),
    caseSensitive ? "--case-sensitive" : "--ignore-case",
    ...globs.map((glob) => `--glob=${glob}`),
    "--regexp",
    query.query,
    "./",
  ];
}

function escapeGlob(name: string): string {
  return name.replaceAll(/[*?[\]{}!\\]/g, "\\$&");
}

/** Of a pattern that makes no sense the program shows the place first and the reason after it. */
function reasonOf(text: string): string {
  const reason = /^error: .+/m.exec(text)?.[0] ?? text.split("\n", 1)[0]!;
  return reason.slice(0, 300);
}

/** The program is missing in sandboxes of earlier versions; the directory may be missing in any. */
function describeStartFailure(error: unknown, directory: string): unknown {
  if (!(error instanceof AppError) || (error.code !== "unprocessable" && error.code !== "not_found")) return error;
  if (error.message.startsWith("chdir")) return describeUnsearchable(directory, error);
  if (error.details?.errno !== "ENOENT") return error;
  const message = "Contents cannot be searched in this sandbox: it was made by an earlier version. Make a new one.";
  return new AppError("unavailable", message, { cause: error });
}
