// Finds names below a directory, by globs or ranked against a query.
import { posix } from "node:path";
import fuzzysort from "fuzzysort";
import type { FindMatch, FuzzyMatch } from "../../contract/sandbox-api/search.ts";
import { AppError } from "../../core/errors.ts";
import type { Guest } from "../machine.ts";
import { type NameFilter, typeName } from "./name-filter.ts";
import { Turn } from "./turn.ts";

/** Ranking needs all candidates at once; more would make everybody on this host wait. */
const candidatesMax = 50_000;
export const queryMaxLength = 64;
/** Compared between two looks at the clock. */
const rankedAtOnce = 32;

export type NameSearch = { guest: Guest; signal: AbortSignal };

export async function findNames(search: NameSearch, directory: string, filter: NameFilter): Promise<FindMatch[]> {
  if (filter.resultsMax === 0) return [];
  return collect(search, directory, filter, filter.walk.entriesMax, filter.resultsMax);
}

/** Best first. */
export async function rankNames(
  search: NameSearch,
  { directory, query }: { directory: string; query: string },
  filter: NameFilter,
): Promise<FuzzyMatch[]> {
  const candidates = await collect(search, directory, filter, candidatesMax, candidatesMax);
  const matches: FuzzyMatch[] = [];
  const turn = new Turn();
  for (let at = 0; at < candidates.length; at += rankedAtOnce) {
    const slice = candidates.slice(at, at + rankedAtOnce);
    for (const { obj, score } of fuzzysort.go(query, slice, { key: "path", limit: filter.resultsMax })) {
      matches.push({ path: obj.path, score, type: obj.type });
    }
    if (!turn.isOver) continue;
    // The library keeps all it has ever compared, whoever's it was.
    fuzzysort.cleanup();
    await turn.next(search.signal);
  }
  fuzzysort.cleanup();
  return matches.sort((left, right) => right.score - left.score).slice(0, filter.resultsMax);
}

async function collect(
  { guest, signal }: NameSearch,
  directory: string,
  filter: NameFilter,
  entriesMax: number,
  matchesMax: number,
): Promise<FindMatch[]> {
  const matches: FindMatch[] = [];
  const turn = new Turn();
  for await (const batch of guest.trees.walk(directory, { ...filter.walk, entriesMax }, signal)) {
    for (const entry of batch) {
      if (turn.isOver) await turn.next(signal);
      if (!filter.accepts(entry)) continue;
      matches.push({ path: entry.path, type: typeName(entry.type) });
      if (matches.length >= matchesMax) return matches;
    }
  }
  return matches;
}

/**
 * Where a search by names looks, and for what: the directory that the path names and the query given; without one, the last segment
 * of the path is the query, and what comes before it the directory, unless the path is a directory itself.
 */
export async function readTarget(
  guest: Guest,
  path: string,
  query: string | undefined,
): Promise<{ directory: string; query: string }> {
  if (query !== undefined && query !== "") return { directory: path, query: query.slice(0, queryMaxLength) };
  if (path === "/")
    throw new AppError("invalid_request", "Name what to search for: with `query`, or as the end of the path.");
  const name = posix.basename(path).slice(0, queryMaxLength);
  const isDirectory = await guest.files.stat(path).then(
    ({ type }) => type === "directory",
    () => false,
  );
  return { directory: isDirectory ? path : posix.dirname(path), query: name };
}
