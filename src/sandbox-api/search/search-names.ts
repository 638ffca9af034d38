// Finds names below a directory, by globs or ranked against a query.
import { posix } from "node:path";
import { setImmediate } from "node:timers/promises";
import fuzzysort from "fuzzysort";
import type { FindMatch, FuzzyMatch } from "../../contract/sandbox-api/search.ts";
import { AppError } from "../../core/errors.ts";
import type { Guest } from "../machine.ts";
import { type NameFilter, typeName } from "./name-filter.ts";

/** Ranking needs all candidates at once; more would make everybody on this host wait. */
const candidatesMax = 50_000;
export const queryMaxLength = 64;
/** Names and queries are the caller's, and may be made to compare slowly: everybody else on this host gets a turn in between. */
const rankedInOneTurn = 500;

export async function findNames(guest: Guest, directory: string, filter: NameFilter): Promise<FindMatch[]> {
  const matches: FindMatch[] = [];
  if (filter.resultsMax === 0) return matches;
  for await (const batch of guest.trees.walk(directory, filter.walk)) {
    for (const entry of batch) {
      if (!filter.accepts(entry)) continue;
      matches.push({ path: entry.path, type: typeName(entry.type) });
      if (matches.length >= filter.resultsMax) return matches;
    }
  }
  return matches;
}

/** Best first. */
export async function rankNames(
  guest: Guest,
  { directory, query }: { directory: string; query: string },
  filter: NameFilter,
): Promise<FuzzyMatch[]> {
  const candidates: FindMatch[] = [];
  for await (const batch of guest.trees.walk(directory, { ...filter.walk, entriesMax: candidatesMax })) {
    for (const entry of batch) {
      if (filter.accepts(entry)) candidates.push({ path: entry.path, type: typeName(entry.type) });
    }
  }
  const matches: FuzzyMatch[] = [];
  for (let at = 0; at < candidates.length; at += rankedInOneTurn) {
    const slice = candidates.slice(at, at + rankedInOneTurn);
    const ranked = fuzzysort.go(query, slice, { key: "path", limit: filter.resultsMax });
    for (const { obj, score } of ranked) matches.push({ path: obj.path, score, type: obj.type });
    // The library keeps all it has ever compared, whoever's it was.
    fuzzysort.cleanup();
    await setImmediate();
  }
  return matches.sort((left, right) => right.score - left.score).slice(0, filter.resultsMax);
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
