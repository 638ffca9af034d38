// Answers what a directory holds; of a very large one in pieces, so that its JSON never stands whole in memory.
import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { FastifyReply } from "fastify";
import { type Directory, directoryEntriesMax } from "../../contract/sandbox-api/filesystem.ts";
import { AppError } from "../../core/errors.ts";
import type { Timing } from "../../core/timing.ts";
import type { FileInfo, GuestFiles } from "../machine.ts";
import type { SessionContext } from "../session-context.ts";
import { directoryAnswer } from "./file-answer.ts";

/** Up to so many are answered at once and counted by nobody. */
const fewEntriesMax = 10_000;
/** What an entry costs until it is sent. */
const entryBytes = 512;
const entriesInPiece = 500;
const jsonType = "application/json; charset=utf-8";

type Asked = { reply: FastifyReply; session: SessionContext; timing: Timing };

export async function answerDirectory({ reply, session, timing }: Asked, path: string): Promise<unknown> {
  const { files } = session.machine.guest;
  const few = await timing.measure("guest", () => listAtMost(files, path, fewEntriesMax));
  if (few !== undefined) return directoryAnswer(path, few);
  await session.budget.takeFor(reply.raw, directoryEntriesMax * entryBytes);
  const many = await timing.measure("guest", () => listAtMost(files, path, directoryEntriesMax));
  if (many !== undefined) return reply.type(jsonType).send(Readable.from(encode(path, many), { objectMode: false }));
  const message = `'${path}' has more than ${directoryEntriesMax} entries, which is more than can be listed; find files in it.`;
  throw new AppError("unprocessable", message);
}

/** Undefined when there are more. */
async function listAtMost(files: GuestFiles, path: string, entriesMax: number): Promise<FileInfo[] | undefined> {
  try {
    return await files.list(path, entriesMax);
  } catch (error) {
    if (error instanceof AppError && error.details?.errno === "EOVERFLOW") return undefined;
    throw error;
  }
}

async function* encode(path: string, entries: FileInfo[]): AsyncGenerator<string> {
  const { files: _files, subdirectories: _subdirectories, ...head } = directoryAnswer(path, []);
  yield `${JSON.stringify(head).slice(0, -1)},"files":[`;
  yield* encodePart(path, entries, "files");
  yield '],"subdirectories":[';
  yield* encodePart(path, entries, "subdirectories");
  yield "]}";
}

async function* encodePart(
  path: string,
  entries: FileInfo[],
  part: keyof Pick<Directory, "files" | "subdirectories">,
): AsyncGenerator<string> {
  let isFirst = true;
  for (let at = 0; at < entries.length; at += entriesInPiece) {
    const items = directoryAnswer(path, entries.slice(at, at + entriesInPiece))[part];
    // Others get a turn between two pieces.
    await setImmediate();
    if (items.length === 0) continue;
    yield `${isFirst ? "" : ","}${JSON.stringify(items).slice(1, -1)}`;
    isFirst = false;
  }
}
