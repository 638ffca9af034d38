// Which names a search by names is about, from the parameters of its request.
import { excludeDirsDefault, matchesMax } from "../../contract/sandbox-api/search.ts";
import { AppError } from "../../core/errors.ts";
import type { FileType, FoundEntry, WalkOptions } from "../machine.ts";
import { compileGlob } from "./glob.ts";

/** Names a walk looks at, at most: a search of a huge tree ends rather than never. */
const entriesMax = 500_000;
const patternsMax = 32;
const excludeDirsMax = 256;
const nameMaxBytes = 255;
/** What a name costs grows with the length of the pattern. */
const patternMaxLength = 128;

export type NameQuery = {
  patterns?: string;
  maxResults?: number;
  excludeDirs?: string;
  excludeHidden?: boolean;
};

export type NameFilter = { walk: WalkOptions; accepts(entry: FoundEntry): boolean; resultsMax: number };

export function readNameFilter(query: NameQuery, wanted: { files: boolean; directories: boolean }): NameFilter {
  const patterns = splitList(query.patterns);
  if (patterns.length > patternsMax || patterns.some((pattern) => pattern.length > patternMaxLength)) {
    const most = `at most ${patternsMax} globs of at most ${patternMaxLength} characters`;
    throw new AppError("invalid_request", `patterns must have ${most}.`);
  }
  const globs = patterns.map(compileGlob);
  return {
    walk: {
      ...wanted,
      skipHidden: query.excludeHidden ?? true,
      excludeDirs: readExcludeDirs(query.excludeDirs),
      entriesMax,
    },
    accepts: ({ path, type }) =>
      (wanted.files || type === "directory") && (globs.length === 0 || globs.some((glob) => glob.matches(path))),
    resultsMax: readResultsMax(query.maxResults, 20),
  };
}

export function readResultsMax(text: number | undefined, fallback: number): number {
  const wanted = text ?? fallback;
  return wanted === 0 ? matchesMax : Math.min(wanted, matchesMax);
}

export function readExcludeDirs(text: string | undefined): string[] {
  const names = splitList(text ?? excludeDirsDefault);
  if (names.length <= excludeDirsMax && names.every((name) => Buffer.byteLength(name) <= nameMaxBytes)) return names;
  const most = `at most ${excludeDirsMax} names of at most ${nameMaxBytes} bytes`;
  throw new AppError("invalid_request", `excludeDirs must have ${most}.`);
}

function splitList(text: string | undefined): string[] {
  return (text ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** What is neither is told as a file: links, sockets, pipes. */
export function typeName(type: FileType): "file" | "directory" {
  return type === "directory" ? "directory" : "file";
}
