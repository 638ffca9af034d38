// The filesystem operations over HTTP, downloads apart.
import type { Readable } from "node:stream";
import {
  fileBodyMaxBytes,
  readPath,
  readTree,
  removePath,
  removeTree,
  treeBodyMaxBytes,
  writePath,
  writeTree,
} from "../../contract/sandbox-api/filesystem.ts";
import { AppError } from "../../core/errors.ts";
import type { FileInfo, GuestFiles } from "../machine.ts";
import { type App, type Call, isMultipart, route } from "../route.ts";
import { absolutePathFromUrl, pathFromUrl } from "../sandbox-path.ts";
import { sendBytes, sendDownload, sendWhole } from "./download.ts";
import { checkTextSize, fileWithContent, fileWithText } from "./file-answer.ts";
import { type FormFields, receiveFile, takeSmallFile } from "./form-upload.ts";
import { answerDirectory } from "./list-directory.ts";
import { directoryModeDefault, fileModeDefault, parsePermissions } from "./permissions.ts";
import { type OpenedFile, readSmallFile, smallFileMaxBytes } from "./small-file.ts";
import { asWriteFailure } from "./write-failure.ts";
import { writeFiles } from "./write-files.ts";

const provisionalMode = 0o600;
const jsonType = "application/json; charset=utf-8";
const prefix = "/filesystem";
const treePrefix = "/filesystem/tree";

export function registerFileRoutes(app: App): void {
  route(app, readTree, async (call) => {
    const { machine } = call.session;
    const path = absolutePathFromUrl(call.request.raw.url!, treePrefix, machine);
    const info = await call.timing.measure("guest", () => machine.guest.files.stat(path));
    if (info.type !== "directory") throw new AppError("invalid_request", `'${path}' is not a directory.`);
    return answerDirectory(call, path);
  });

  route(
    app,
    writeTree,
    async (call) => {
      const { machine } = call.session;
      const path = absolutePathFromUrl(call.request.raw.url!, treePrefix, machine);
      const { files } = machine.guest;
      await call.timing.measure("guest", () => asWriteFailure(writeFiles(files, path, call.body.files ?? {})));
      return answerDirectory(call, path);
    },
    { bodyMaxBytes: treeBodyMaxBytes },
  );

  route(app, removeTree, async ({ request, query, session: { machine }, timing }) => {
    const path = absolutePathFromUrl(request.raw.url!, treePrefix, machine);
    const info = await timing.measure("guest", () => machine.guest.files.stat(path));
    if (info.type !== "directory") throw new AppError("invalid_request", `'${path}' is not a directory.`);
    await timing.measure("guest", () => machine.guest.files.remove(path, { recursive: query.recursive ?? false }));
    return { path, message: "Deleted successfully" };
  });

  route(app, readPath, read, { paths: [prefix] });

  route(app, writePath, (call) => (isMultipart(call.request) ? writeForm(call) : writeJson(call)), {
    paths: [prefix],
    acceptsForm: true,
    bodyMaxBytes: fileBodyMaxBytes,
  });

  route(
    app,
    removePath,
    async ({ request, query, session: { machine }, timing }) => {
      const path = pathFromUrl(request.raw.url!, prefix, machine);
      await timing.measure("guest", () => machine.guest.files.remove(path, { recursive: query.recursive ?? false }));
      return { path, message: "Deleted successfully" };
    },
    { paths: [prefix] },
  );
}

async function read(call: Call<typeof readPath>): Promise<unknown> {
  const { request, query, session, timing } = call;
  const path = pathFromUrl(request.raw.url!, prefix, session.machine);
  const { files } = session.machine.guest;
  const asksRaw = query.download === true || asksForBytes(request.headers.accept);
  // Which bytes of a large file are wanted may depend on its size, and HEAD wants none: it is looked at first.
  if (request.method === "HEAD" || (asksRaw && request.headers.range !== undefined)) {
    const info = await timing.measure("guest", () => files.stat(path));
    if (info.type === "file" && info.sizeBytes > smallFileMaxBytes) return readDescribed(call, path, info, asksRaw);
  }
  const opened = await timing.measure("guest", () => openUnlessDirectory(files, path));
  if (opened === undefined) return answerDirectory(call, path);
  return answerOpened(call, path, opened, asksRaw);
}

async function answerOpened(
  { request, reply, session, timing }: Call<typeof readPath>,
  path: string,
  opened: OpenedFile,
  asksRaw: boolean,
): Promise<unknown> {
  if (opened.info.sizeBytes <= smallFileMaxBytes) {
    const whole = await timing.measure("guest", () => readSmallFile(session.machine.guest.files, path, opened));
    return asksRaw ? sendBytes(request, reply, whole) : fileWithText(path, whole.info, whole.bytes);
  }
  if (asksRaw) return sendWhole(request, reply, opened);
  try {
    checkTextSize(opened.info);
  } catch (error) {
    opened.body.destroy();
    throw error;
  }
  return reply.type(jsonType).send(fileWithContent(path, opened.info, opened.body));
}

async function readDescribed(
  { request, reply, session, timing }: Call<typeof readPath>,
  path: string,
  info: FileInfo,
  asksRaw: boolean,
): Promise<unknown> {
  if (asksRaw) return sendDownload({ path, info, files: session.machine.guest.files, request, reply, timing });
  checkTextSize(info);
  return reply.type(jsonType).send();
}

/** Opening tells what a path is in one step; undefined for a directory. */
async function openUnlessDirectory(files: GuestFiles, path: string): Promise<OpenedFile | undefined> {
  try {
    return await files.read(path);
  } catch (error) {
    if (error instanceof AppError && error.details?.errno === "EISDIR") return undefined;
    throw error;
  }
}

/** Raw bytes are asked for by naming octet-stream, or anything that is neither JSON nor a wildcard. */
function asksForBytes(accept: string | undefined): boolean {
  if (accept === undefined || accept === "") return false;
  return accept.includes("octet-stream") || !(accept.includes("json") || accept.includes("*/*"));
}

async function writeJson({ request, body, session: { machine }, timing }: Call<typeof writePath>): Promise<unknown> {
  const path = pathFromUrl(request.raw.url!, prefix, machine);
  const { files } = machine.guest;
  if (body.isDirectory === true) {
    const mode = parsePermissions(body.permissions, directoryModeDefault);
    await timing.measure("guest", () => asWriteFailure(makeDirectory(files, path, mode)));
    return { path, message: "Directory created successfully" };
  }
  const mode = parsePermissions(body.permissions, fileModeDefault);
  const content = Buffer.from(body.content ?? "", "utf8");
  await timing.measure("guest", () => asWriteFailure(files.write(path, content, { mode })));
  return { path, message: "File created/updated successfully" };
}

/** Making a directory that is there already is no failure. */
async function makeDirectory(files: GuestFiles, path: string, mode: number): Promise<void> {
  try {
    await files.makeDirectory(path, mode);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "already_exists") throw error;
    const info = await files.stat(path);
    if (info.type !== "directory") throw error;
  }
}

/**
 * A small file waits for the whole form, and so for its permissions. A large one whose permissions did not come before its bytes is
 * published for its owner alone until they are known to be wider.
 */
async function writeForm({ request, session: { machine }, timing }: Call<typeof writePath>): Promise<unknown> {
  const path = pathFromUrl(request.raw.url!, prefix, machine);
  const { files } = machine.guest;
  return timing.measure("guest", async () => {
    const modeIn = (fields: FormFields): number => parsePermissions(fields.get("permissions"), fileModeDefault);
    const receive = async (file: Readable, seen: FormFields, signal: AbortSignal): Promise<number> => {
      const small = await takeSmallFile(file);
      const isKnown = small !== undefined || seen.has("permissions");
      const mode = isKnown ? modeIn(seen) : provisionalMode;
      await asWriteFailure(files.write(path, small ?? file, { mode, signal }));
      return mode;
    };
    const { result: writtenMode, fields } = await receiveFile(request.raw, receive, (all) => void modeIn(all));
    const mode = modeIn(fields);
    if (mode !== writtenMode) await asWriteFailure(files.setMode(path, mode));
    return { path, message: "Binary file uploaded successfully" };
  });
}
