// Files as tools: the operations of /filesystem, and an edit that replaces a text which must be there.
import { posix } from "node:path";
import { buffer } from "node:stream/consumers";
import { Type } from "typebox";
import { Directory, FileWithContent, PathMessage } from "../../contract/sandbox-api/filesystem.ts";
import { AppError } from "../../core/errors.ts";
import { directoryAnswer, fileAnswer } from "../files/file-answer.ts";
import { directoryModeDefault, fileModeDefault, parsePermissions } from "../files/permissions.ts";
import type { FileInfo, GuestFiles } from "../machine.ts";
import { resolvePath } from "../sandbox-path.ts";
import { defineTool, type ToolCall } from "./tool.ts";

/** Of a file that is read or edited whole. */
export const toolFileMaxBytes = 2 * 1024 * 1024;
const entriesMax = 2_000;
/** A file's content as bytes, as text, as JSON and as JSON in JSON. */
const copies = 8;

export const Path = (what: string) =>
  Type.String({ minLength: 1, maxLength: 4_095, description: `${what}, absolute or from the working directory.` });
const Text = (description: string) => Type.String({ maxLength: toolFileMaxBytes, description });

export const fileTools = [
  defineTool({
    name: "fsGetWorkingDirectory",
    title: "Working directory",
    description: "Get the directory that relative paths start from.",
    input: Type.Object({}, { additionalProperties: false }),
    output: Type.Object({ path: Type.String() }),
    changes: "nothing",
    run: (_input, { session }) => ({ path: session.machine.workingDir }),
  }),
  defineTool({
    name: "fsListDirectory",
    title: "List a directory",
    description: `List the files and directories directly in a directory, at most ${entriesMax}.`,
    input: Type.Object({ path: Path("The directory") }, { additionalProperties: false }),
    output: Type.Object({ directory: Directory }),
    changes: "nothing",
    run: async ({ path }, call) => ({ directory: await listDirectory(path, call) }),
  }),
  defineTool({
    name: "fsReadFile",
    title: "Read a file",
    description: `Read a text file of at most ${toolFileMaxBytes / 1024 / 1024} MiB; of larger ones codegenReadFileRange reads parts.`,
    input: Type.Object({ path: Path("The file") }, { additionalProperties: false }),
    output: FileWithContent,
    changes: "nothing",
    async run({ path }, call) {
      const absolute = resolvePath(path, call.session.machine);
      const { info, bytes } = await readWhole(absolute, call);
      return { ...fileAnswer(absolute, posix.basename(absolute), info), content: bytes.toString("utf8") };
    },
  }),
  defineTool({
    name: "fsWriteFile",
    title: "Write a file",
    description: "Create a file, replace its whole content, or create a directory; parents are created.",
    input: Type.Object(
      {
        path: Path("The file or directory"),
        content: Type.Optional(Text("The whole content. Default: empty.")),
        permissions: Type.Optional(Type.String({ maxLength: 8, description: "Octal digits, e.g. 0644." })),
        isDirectory: Type.Optional(Type.Boolean({ description: "Create a directory. Default false." })),
      },
      { additionalProperties: false },
    ),
    output: PathMessage,
    changes: "anything",
    async run({ path, content, permissions, isDirectory }, { session: { machine }, signal }) {
      const absolute = resolvePath(path, machine);
      const { files } = machine.guest;
      if (isDirectory === true) {
        await makeDirectory(files, absolute, parsePermissions(permissions, directoryModeDefault));
        return { path: absolute, message: "Directory created successfully" };
      }
      const mode = parsePermissions(permissions, fileModeDefault);
      await files.write(absolute, Buffer.from(content ?? "", "utf8"), { mode, signal });
      return { path: absolute, message: "File created/updated successfully" };
    },
  }),
  defineTool({
    name: "fsEditFile",
    title: "Edit a file",
    description: "Replace a text in a file by another. The text must be there exactly once, or replaceAll be true.",
    input: Type.Object(
      {
        path: Path("The file"),
        oldString: Text("What to replace, exactly as it stands in the file, with enough around it to be there once."),
        newString: Text("What to put in its place; empty to remove it."),
        replaceAll: Type.Optional(Type.Boolean({ description: "Replace it wherever it is. Default false." })),
      },
      { additionalProperties: false },
    ),
    output: Type.Object({ path: Type.String(), occurrencesReplaced: Type.Integer() }),
    changes: "anything",
    run: editFile,
  }),
  defineTool({
    name: "fsDeleteFileOrDirectory",
    title: "Delete a file or directory",
    description: "Delete a file, or a directory, with everything in it only when recursive is true.",
    input: Type.Object(
      {
        path: Path("The file or directory"),
        isDirectory: Type.Optional(
          Type.Boolean({ description: "Refuse unless it is a directory (true) or is none (false)." }),
        ),
        recursive: Type.Optional(Type.Boolean({ description: "Delete what a directory contains. Default false." })),
      },
      { additionalProperties: false },
    ),
    output: PathMessage,
    changes: "anything",
    async run({ path, isDirectory, recursive }, { session: { machine } }) {
      const absolute = resolvePath(path, machine);
      const { type } = await machine.guest.files.stat(absolute);
      if (isDirectory !== undefined && isDirectory !== (type === "directory")) {
        throw new AppError("unprocessable", `'${absolute}' is ${type === "directory" ? "a" : "not a"} directory.`);
      }
      await machine.guest.files.remove(absolute, { recursive: recursive ?? false });
      return { path: absolute, message: `${type === "directory" ? "Directory" : "File"} deleted successfully` };
    },
  }),
];

export async function listDirectory(path: string, { session: { machine } }: ToolCall): Promise<Directory> {
  const absolute = resolvePath(path, machine);
  return directoryAnswer(absolute, await machine.guest.files.list(absolute, entriesMax));
}

type Edit = { path: string; oldString: string; newString: string; replaceAll?: boolean };

async function editFile({ path, oldString, newString, replaceAll }: Edit, call: ToolCall) {
  if (oldString === "") throw new AppError("invalid_request", "argument 'oldString' must not be empty");
  if (oldString === newString) throw new AppError("invalid_request", "oldString and newString are the same.");
  const { machine } = call.session;
  const absolute = resolvePath(path, machine);
  const { info, bytes } = await readWhole(absolute, call);
  // Bytes and not text: what is not UTF-8 elsewhere in the file stays as it is.
  const [old, replacement] = [Buffer.from(oldString, "utf8"), Buffer.from(newString, "utf8")];
  const places = findAll(bytes, old);
  if (places.length === 0) {
    const message = `oldString is not in '${absolute}'. Read the file again: it may have changed.`;
    throw new AppError("unprocessable", message);
  }
  if (places.length > 1 && replaceAll !== true) {
    const message = `oldString is in '${absolute}' ${places.length} times. Give more of what is around it, or set replaceAll.`;
    throw new AppError("unprocessable", message);
  }
  if (bytes.length + places.length * (replacement.length - old.length) > toolFileMaxBytes) {
    throw new AppError("unprocessable", `The file would have more than ${toolFileMaxBytes} bytes.`);
  }
  const edited = Buffer.concat([
    ...places.flatMap((place, index) => {
      const begin = index === 0 ? 0 : places[index - 1]! + old.length;
      return [bytes.subarray(begin, place), replacement];
    }),
    bytes.subarray(places.at(-1)! + old.length),
  ]);
  await machine.guest.files.write(absolute, edited, { mode: info.mode, signal: call.signal });
  return { path: absolute, occurrencesReplaced: places.length };
}

function findAll(bytes: Buffer, wanted: Buffer): number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(wanted); at !== -1; at = bytes.indexOf(wanted, at + wanted.length)) places.push(at);
  return places;
}

async function readWhole(path: string, call: ToolCall): Promise<{ info: FileInfo; bytes: Buffer }> {
  const { info, body } = await call.session.machine.guest.files.read(path, { offset: 0, length: toolFileMaxBytes });
  try {
    if (info.sizeBytes > toolFileMaxBytes) {
      const message = `'${path}' has ${info.sizeBytes} bytes, more than ${toolFileMaxBytes}. Read parts with codegenReadFileRange, edit it with processExecute.`;
      throw new AppError("unprocessable", message);
    }
    await call.reserve(info.sizeBytes * copies);
    return { info, bytes: await buffer(body) };
  } catch (error) {
    body.destroy();
    throw error;
  }
}

/** Making a directory that is there already is no failure. */
async function makeDirectory(files: GuestFiles, path: string, mode: number): Promise<void> {
  try {
    await files.makeDirectory(path, mode);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "already_exists") throw error;
    if ((await files.stat(path)).type !== "directory") throw error;
  }
}
