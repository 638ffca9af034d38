// The searches over HTTP.
import { findFiles, searchContents, searchNames } from "../../contract/sandbox-api/search.ts";
import { closeSignal } from "../client-gone.ts";
import { type App, route } from "../route.ts";
import { pathFromUrl } from "../sandbox-path.ts";
import { readExcludeDirs, readNameFilter, readResultsMax } from "./name-filter.ts";
import { searchContentsOf } from "./search-contents.ts";
import { findNames, rankNames, readTarget } from "./search-names.ts";
import { withinSearchTime } from "./search-time.ts";

export function registerSearchRoutes(app: App): void {
  const find = "/filesystem-find";
  route(
    app,
    findFiles,
    async ({ request, reply, query, session, timing }) => {
      const { machine } = session;
      const directory = pathFromUrl(request.raw.url!, find, machine);
      const isForDirectories = query.type === "directory";
      const filter = readNameFilter(query, { files: !isForDirectories, directories: isForDirectories });
      const matches = await timing.measure("guest", () =>
        withinSearchTime(closeSignal(reply.raw, session), (signal) =>
          findNames({ guest: machine.guest, signal }, directory, filter),
        ),
      );
      return { matches, total: matches.length };
    },
    { paths: [find] },
  );

  const search = "/filesystem-search";
  route(
    app,
    searchNames,
    async ({ request, reply, query, session, timing }) => {
      const { machine } = session;
      const path = pathFromUrl(request.raw.url!, search, machine);
      const filter = readNameFilter(query, { files: true, directories: true });
      const target = await timing.measure("guest", () => readTarget(machine.guest, path, query.query));
      const matches = await timing.measure("guest", () =>
        withinSearchTime(closeSignal(reply.raw, session), (signal) =>
          rankNames({ guest: machine.guest, signal }, target, filter),
        ),
      );
      return { matches, total: matches.length };
    },
    { paths: [search] },
  );

  const contents = "/filesystem-content-search";
  route(
    app,
    searchContents,
    async ({ request, reply, query, session, timing }) => {
      const { machine, tools } = session;
      const directory = pathFromUrl(request.raw.url!, contents, machine);
      const signal = closeSignal(reply.raw, session);
      const matches = await timing.measure("guest", () =>
        searchContentsOf(
          { tools, program: machine.searchProgram, directory, signal },
          {
            query: query.query,
            caseSensitive: query.caseSensitive ?? false,
            filePattern: query.filePattern,
            excludeDirs: readExcludeDirs(query.excludeDirs),
            resultsMax: readResultsMax(query.maxResults, 100),
          },
        ),
      );
      return { query: query.query, matches, total: matches.length };
    },
    { paths: [contents] },
  );
}
