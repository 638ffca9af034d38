// Files and directories of a sandbox. Paths stand raw in the URL after the prefix; the wildcard keeps `%2F` and `//` apart.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

/** Bytes of a JSON request body that carries a file's content. */
export const fileBodyMaxBytes = 16 * 1024 * 1024;
/** Size up to which a file is answered as JSON text; larger ones are downloaded. */
export const fileTextMaxBytes = 64 * 1024 * 1024;

/** Entries of a directory that are listed at most. */
export const directoryEntriesMax = 100_000;

const file = {
  path: Type.String(),
  name: Type.String(),
  permissions: Type.String({ description: "Octal digits, e.g. `0644`." }),
  size: Type.Integer(),
  lastModified: Type.String({ description: "As in HTTP headers." }),
  owner: Type.String(),
  group: Type.String(),
};
export const File = Type.Object(file, { title: "File" });
export type File = Static<typeof File>;

export const FileWithContent = Type.Object({ ...file, content: Type.String() }, { title: "FileWithContent" });
export type FileWithContent = Static<typeof FileWithContent>;

export const Directory = Type.Object(
  {
    path: Type.String(),
    name: Type.String(),
    files: Type.Array(File),
    subdirectories: Type.Array(Type.Object({ path: Type.String(), name: Type.String() })),
  },
  { title: "Directory" },
);
export type Directory = Static<typeof Directory>;

export const FileRequest = Type.Object(
  {
    content: Type.Optional(Type.String()),
    isDirectory: Type.Optional(Type.Boolean()),
    permissions: Type.Optional(
      Type.String({ description: "Octal digits. Default 0644 for a file and 0755 for a directory." }),
    ),
  },
  { title: "FileRequest" },
);
export type FileRequest = Static<typeof FileRequest>;

export const PathMessage = Type.Object({ path: Type.String(), message: Type.String() }, { title: "PathMessage" });
export type PathMessage = Static<typeof PathMessage>;

const scope = "sandboxes:control";
const path = "/filesystem/*";

export const readPath = endpoint({
  method: "GET",
  path,
  summary: "Read a file as JSON or raw bytes (ranges honoured), or list a directory",
  tag: "filesystem",
  scope,
  query: Type.Object({ download: Type.Optional(Type.Boolean()) }),
  response: Type.Union([FileWithContent, Directory]),
  errors: [416, 422],
});

export const writePath = endpoint({
  method: "PUT",
  path,
  summary: "Write a file (JSON, or multipart form with a `file` part) or make a directory",
  tag: "filesystem",
  scope,
  body: FileRequest,
  response: PathMessage,
  errors: [422],
});

export const removePath = endpoint({
  method: "DELETE",
  path,
  summary: "Remove a file or a directory",
  tag: "filesystem",
  scope,
  query: Type.Object({ recursive: Type.Optional(Type.Boolean()) }),
  response: PathMessage,
  errors: [422],
});

/** Files of one request, and how much they may have together as JSON. */
export const treeFilesMax = 10_000;
export const treeBodyMaxBytes = 64 * 1024 * 1024;

export const TreeRequest = Type.Object({
  files: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      maxProperties: treeFilesMax,
      description: "Contents by paths relative to the tree.",
    }),
  ),
});

export const writeTree = endpoint({
  method: "PUT",
  path: "/filesystem/tree/*",
  summary: "Write many files below a directory, which is made; answers with that directory",
  tag: "filesystem",
  scope,
  body: TreeRequest,
  response: Directory,
  errors: [422],
});

export const removeTree = endpoint({
  method: "DELETE",
  path: "/filesystem/tree/*",
  summary: "Remove a directory",
  tag: "filesystem",
  scope,
  query: Type.Object({ recursive: Type.Optional(Type.Boolean()) }),
  response: PathMessage,
  errors: [422],
});

export const readTree = endpoint({
  method: "GET",
  path: "/filesystem/tree/*",
  summary: "List one level of a directory; the path is always absolute",
  tag: "filesystem",
  scope,
  response: Directory,
});
