// Finds names below a directory, by globs or ranked against a query.
import { posix } from "node:path";
import fuzzysort from "fuzzysort";
import type { FindMatch, FuzzyMatch } from "../../contract/sandbox-api/search.ts";
import { AppError } from "../../core/errors.ts";
import type { FoundEntry, Guest } from "../machine.ts";
import { type NameFilter, typeName } from "./name-filter.ts";
import { Turn } from "./turn.ts";
import { describeUnsearchable } from "./unsearchable.ts";

export const queryMaxLength = 64;
/** Compared between two looks at the clock. */
const rankedAtOnce = 32;

export type NameSearch = { guest: Guest; signal: AbortSignal };

export async function findNames(
  { guest, signal }: NameSearch,
  directory: string,
  filter: NameFilter,
): Promise<FindMatch[]> {
  const matches: FindMatch[] = [];
  if (filter.resultsMax === 0) return matches;
  const turn = new Turn();
  for await (const batch of entriesBelow(directory, filter, { guest, signal })) {
    for (const entry of batch) {
      if (turn.isOver) await turn.next(signal);
      if (!filter.accepts(entry)) continue;
      matches.push({ path: entry.path, type: typeName(entry.type) });
      if (matches.length >= filter.resultsMax) return matches;
    }
  }
  return matches;
}

/** Best first. However large the tree is, only the best so far are kept. */
export async function rankNames(
  { guest, signal }: NameSearch,
  { directory, query }: { directory: string; query: string },
  filter: NameFilter,
): Promise<FuzzyMatch[]> {
  let best: FuzzyMatch[] = [];
  const keepBest = (): void => {
    best = best.sort((left, right) => right.score - left.score).slice(0, filter.resultsMax);
  };
  const turn = new Turn();
  for await (const batch of entriesBelow(directory, filter, { guest, signal })) {
    for (let at = 0; at < batch.length; at += rankedAtOnce) {
      const slice = batch.slice(at, at + rankedAtOnce).filter((entry) => filter.accepts(entry));
      for (const { obj, score } of fuzzysort.go(query, slice, { key: "path", limit: filter.resultsMax })) {
        best.push({ path: obj.path, score, type: typeName(obj.type) });
      }
      if (turn.isOver) await turn.next(signal);
    }
    // The library keeps all it has ever compared, whoever's it was.
    fuzzysort.cleanup();
    if (best.length > 4 * filter.resultsMax) keepBest();
  }
  keepBest();
  return best;
}

async function* entriesBelow(
  directory: string,
  { walk }: NameFilter,
  { guest, signal }: NameSearch,
): AsyncGenerator<FoundEntry[]> {
  try {
    yield* guest.trees.walk(directory, walk, signal);
  } catch (error) {
    throw error instanceof AppError && error.code === "not_found" ? describeUnsearchable(directory, error) : error;
  }
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
