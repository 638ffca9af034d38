// Finding and reading code as tools; those that would need somebody else's model say so.
import { posix } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { Type } from "typebox";
import { Directory } from "../../contract/sandbox-api/filesystem.ts";
import { AppError } from "../../core/errors.ts";
import { resolvePath } from "../sandbox-path.ts";
import { readExcludeDirs, readNameFilter } from "../search/name-filter.ts";
import { searchContentsOf } from "../search/search-contents.ts";
import { queryMaxLength, rankNames } from "../search/search-names.ts";
import { withinSearchTime } from "../search/search-time.ts";
import { listDirectory, Path } from "./file-tools.ts";
import { defineTool, type Tool, type ToolCall } from "./tool.ts";

const filesFoundMax = 10;
const linesMax = 250;
const rangeMaxCharacters = 256 * 1024;
/** Of a file whose lines are counted. */
const scannedMaxBytes = 64 * 1024 * 1024;
const matchesMax = 200;
const matchesMaxCharacters = 128 * 1024;

const Query = (description: string) => Type.String({ minLength: 1, maxLength: 1_024, description });
const Glob = (description: string) => Type.Optional(Type.String({ maxLength: 1_024, description }));
const Line = (description: string) => Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description });

export const codeTools = [
  defineTool({
    name: "codegenFileSearch",
    title: "Find files by name",
    description: `Find files whose path resembles a text, best first, at most ${filesFoundMax}.`,
    input: Type.Object(
      {
        query: Query("What the path resembles."),
        directory: Type.Optional(Path("Where to look. Default: the working directory")),
      },
      { additionalProperties: false },
    ),
    output: Type.Object({ success: Type.Boolean(), matches: Type.Array(Type.String()), query: Type.String() }),
    changes: "nothing",
    async run({ query, directory }, { session: { machine }, signal }) {
      const root = resolvePath(directory ?? "", machine);
      const filter = readNameFilter({ maxResults: filesFoundMax }, { files: true, directories: false });
      const target = { directory: root, query: query.slice(0, queryMaxLength) };
      const found = await withinSearchTime(signal, (ends) =>
        rankNames({ guest: machine.guest, signal: ends }, target, filter),
      );
      return { success: true, matches: found.map(({ path }) => posix.join(root, path)), query };
    },
  }),
  needsModel({
    name: "codegenCodebaseSearch",
    title: "Search code by meaning",
    instead: "Search with codegenGrepSearch or codegenFileSearch.",
    input: {
      query: Query("What the code is about."),
      targetDirectories: Type.Optional(Type.Array(Type.String({ maxLength: 4_095 }), { maxItems: 64 })),
    },
  }),
  defineTool({
    name: "codegenGrepSearch",
    title: "Search contents of files",
    description: `Search the files below the working directory for a regular expression (ripgrep's syntax); at most ${matchesMax} matches.`,
    input: Type.Object(
      {
        query: Query("The regular expression."),
        caseSensitive: Type.Optional(Type.Boolean({ description: "Default false." })),
        includePattern: Glob("A glob of the files to search, e.g. *.ts."),
        excludePattern: Glob("A glob of the files to leave out."),
      },
      { additionalProperties: false },
    ),
    output: Type.Object({ success: Type.Boolean(), results: Type.String() }),
    changes: "nothing",
    run: async (input, call) => ({ success: true, results: await grep(input, call) }),
  }),
  defineTool({
    name: "codegenReadFileRange",
    title: "Read lines of a file",
    description: `Read lines of a text file, at most ${linesMax} at a time.`,
    input: Type.Object(
      {
        targetFile: Path("The file"),
        startLineOneIndexed: Line("The first line, from 1."),
        endLineOneIndexedInclusive: Line("The last line; past the end means the end."),
      },
      { additionalProperties: false },
    ),
    output: Type.Object({ success: Type.Boolean(), content: Type.String(), file: Type.String() }),
    changes: "nothing",
    async run({ targetFile, startLineOneIndexed: first, endLineOneIndexedInclusive: last }, call) {
      if (last < first) throw new AppError("invalid_request", "The last line is before the first.");
      if (last - first >= linesMax) {
        throw new AppError("invalid_request", `At most ${linesMax} lines can be read at a time.`);
      }
      return { success: true, content: await readLines(targetFile, first, last, call), file: targetFile };
    },
  }),
  needsModel({
    name: "codegenReapply",
    title: "Repeat an edit with another model",
    instead: "Edit with fsEditFile.",
    input: { targetFile: Path("The file") },
  }),
  defineTool({
    name: "codegenListDir",
    title: "List a directory",
    description: "List the files and directories directly in a directory.",
    input: Type.Object(
      { relativeWorkspacePath: Type.String({ maxLength: 4_095, description: "From the working directory." }) },
      { additionalProperties: false },
    ),
    output: Type.Object({ success: Type.Boolean(), directory: Directory }),
    changes: "nothing",
    run: async ({ relativeWorkspacePath }, call) => ({
      success: true,
      directory: await listDirectory(relativeWorkspacePath, call),
    }),
  }),
  needsModel({
    name: "codegenParallelApply",
    title: "Edit several places at once",
    instead: "Edit one place after the other with fsEditFile.",
    input: {
      editPlan: Type.String({ maxLength: 65_536, description: "What is to be edited." }),
      editRegions: Type.Array(
        Type.Object({
          relativeWorkspacePath: Path("The file"),
          startLine: Type.Optional(Line("The first line.")),
          endLine: Type.Optional(Line("The last line.")),
        }),
        { maxItems: 50 },
      ),
    },
  }),
];

type ModelTool = { name: string; title: string; instead: string; input: Parameters<typeof Type.Object>[0] };

/** What is done by a provider's model cannot be done without one, whatever the sandbox's environment holds. */
function needsModel({ name, title, instead, input }: ModelTool): Tool {
  const setting = "RELACE_API_KEY or MORPH_API_KEY";
  return defineTool({
    name,
    title,
    description: `Not available here: it needs a provider's model (${setting}). ${instead}`,
    input: Type.Object(input, { additionalProperties: false }),
    output: Type.Object({ success: Type.Boolean(), message: Type.Optional(Type.String()) }),
    changes: "nothing",
    run() {
      const message = `${name} needs a model of the provider whose key is ${setting}, and this platform calls none. ${instead}`;
      throw new AppError("unavailable", message);
    },
  });
}

type Grep = { query: string; caseSensitive?: boolean; includePattern?: string; excludePattern?: string };

async function grep(input: Grep, { session, signal }: ToolCall): Promise<string> {
  const { machine, tools } = session;
  const matches = await searchContentsOf(
    { tools, program: machine.searchProgram, directory: machine.workingDir, signal },
    {
      query: input.query,
      isPattern: true,
      caseSensitive: input.caseSensitive ?? false,
      filePattern: input.includePattern,
      excludePattern: input.excludePattern,
      excludeDirs: readExcludeDirs(undefined),
      resultsMax: matchesMax,
    },
  );
  if (matches.length === 0) return "Nothing matches.";
  let results = "";
  for (const [index, { path, line, column, text }] of matches.entries()) {
    const told = `${path}:${line}:${column}:${text}\n`;
    if (results.length + told.length > matchesMaxCharacters) {
      return `${results}[... ${matches.length - index} more matches are not shown ...]\n`;
    }
    results += told;
  }
  return matches.length < matchesMax ? results : `${results}[... there may be more matches ...]\n`;
}

/** Reads no further than the last line wanted. */
async function readLines(path: string, first: number, last: number, { session, signal }: ToolCall): Promise<string> {
  const absolute = resolvePath(path, session.machine);
  const { body } = await session.machine.guest.files.read(absolute, { offset: 0, length: scannedMaxBytes });
  const decoder = new StringDecoder("utf8");
  let line = 1;
  let content = "";
  const take = (text: string): boolean => {
    let at = 0;
    while (line <= last && at < text.length) {
      const newline = text.indexOf("\n", at);
      const end = newline === -1 ? text.length : newline + 1;
      if (line >= first) content += text.slice(at, end);
      if (content.length > rangeMaxCharacters) return false;
      if (newline !== -1) line += 1;
      at = end;
    }
    return line <= last;
  };
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      signal.throwIfAborted();
      if (!take(decoder.write(chunk))) break;
    }
    take(decoder.end());
  } finally {
    body.destroy();
  }
  if (content.length > rangeMaxCharacters) {
    return `${content.slice(0, rangeMaxCharacters)}\n[... the lines are longer than can be shown ...]`;
  }
  if (line < first) throw new AppError("unprocessable", `'${absolute}' has only ${line} lines that can be read.`);
  return content.replace(/\n$/, "");
}
