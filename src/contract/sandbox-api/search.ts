// Finding files by name, ranking names against a query, and searching in contents. Paths stand raw in the URL after the prefix.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

/** Answers have at most so many matches, also when all are asked for. */
export const matchesMax = 1_000;
/** What is hardly ever meant; an empty `excludeDirs` searches it, too. */
export const excludeDirsDefault = "node_modules,vendor,.git,dist,build,target,__pycache__,.venv,.next,coverage";

const MaxResults = (fallback: number) =>
  Type.Optional(
    Type.Integer({ minimum: 0, description: `Default ${fallback}; 0 means all, which are at most ${matchesMax}.` }),
  );
const Texts = (description: string) => Type.Optional(Type.String({ maxLength: 4_096, description }));
const excludeDirs = Texts(`Names of directories, separated by commas. Default ${excludeDirsDefault}.`);

const names = {
  patterns: Texts("Globs separated by commas; one without a slash is for names, another for paths."),
  maxResults: MaxResults(20),
  excludeDirs,
  excludeHidden: Type.Optional(Type.Boolean({ description: "Leave out names that begin with a dot. Default true." })),
};

const FoundType = Type.Enum(["file", "directory"]);

export const FindMatch = Type.Object({ path: Type.String(), type: FoundType });
export type FindMatch = Static<typeof FindMatch>;

export const FuzzyMatch = Type.Object({ path: Type.String(), score: Type.Number(), type: FoundType });
export type FuzzyMatch = Static<typeof FuzzyMatch>;

export const ContentMatch = Type.Object({
  path: Type.String(),
  /** From 1. */
  line: Type.Integer(),
  /** In bytes, from 1. */
  column: Type.Integer(),
  /** The line, cut where it is very long. */
  text: Type.String(),
  context: Type.Optional(Type.String()),
});
export type ContentMatch = Static<typeof ContentMatch>;

const tag = "filesystem";
const scope = "sandboxes:control";

export const findFiles = endpoint({
  method: "GET",
  path: "/filesystem-find/*",
  summary: "Find files or directories below a directory by their names",
  tag,
  scope,
  query: Type.Object({ type: Type.Optional(FoundType), ...names }),
  response: Type.Object({ matches: Type.Array(FindMatch), total: Type.Integer() }),
  errors: [422],
});

export const searchNames = endpoint({
  method: "GET",
  path: "/filesystem-search/*",
  summary:
    "Rank the names below a directory against a query; without `query` the last segment of the path is the query",
  tag,
  scope,
  query: Type.Object({ query: Texts("What the names are compared with."), ...names }),
  response: Type.Object({ matches: Type.Array(FuzzyMatch), total: Type.Integer() }),
  errors: [422],
});

export const searchContents = endpoint({
  method: "GET",
  path: "/filesystem-content-search/*",
  summary: "Search the files below a directory for a text",
  tag,
  scope,
  query: Type.Object({
    query: Type.String({ minLength: 1, maxLength: 1_024, description: "The text itself, which is no pattern." }),
    caseSensitive: Type.Optional(Type.Boolean({ description: "Default false." })),
    contextLines: Type.Optional(Type.Integer({ minimum: 0, description: "Accepted and without effect." })),
    maxResults: MaxResults(100),
    filePattern: Texts("A glob for the names of files."),
    excludeDirs,
  }),
  response: Type.Object({ query: Type.String(), matches: Type.Array(ContentMatch), total: Type.Integer() }),
  errors: [422],
});
