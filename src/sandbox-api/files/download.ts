// Sends a file's bytes: whole or a range of them, described by headers, stopped when the client goes away.
import type { FastifyReply, FastifyRequest } from "fastify";
import { AppError } from "../../core/errors.ts";
import type { Timing } from "../../core/timing.ts";
import type { FileInfo, GuestFiles } from "../machine.ts";
import { type ByteRange, namesVersion, parseRange, rangeApplies } from "./byte-range.ts";
import { contentDisposition, contentType, fileVersion } from "./content-headers.ts";
import type { OpenedFile, WholeFile } from "./small-file.ts";

const openAttempts = 3;

type Download = {
  path: string;
  info: FileInfo;
  files: GuestFiles;
  request: FastifyRequest;
  reply: FastifyReply;
  timing: Timing;
};

export function sendWhole(request: FastifyRequest, reply: FastifyReply, { info, body }: OpenedFile): FastifyReply {
  if (!isKnown(request, info)) return describe(reply, info, undefined).send(body);
  body.destroy();
  return sendUnchanged(reply, info);
}

/** A file that was read already: ranges are of what was read. */
export function sendBytes(request: FastifyRequest, reply: FastifyReply, { info, bytes }: WholeFile): FastifyReply {
  if (isKnown(request, info)) return sendUnchanged(reply, info);
  const range = satisfiableRange(request, reply, info);
  const answer = describe(reply, info, range);
  if (request.method === "HEAD") return answer.send();
  return answer.send(range === undefined ? bytes : bytes.subarray(range.first, range.last + 1));
}

export async function sendDownload(download: Download): Promise<FastifyReply> {
  const { path, files, request, reply, timing } = download;
  let { info } = download;
  for (let attempt = 1; ; attempt += 1) {
    if (info.type !== "file") throw new AppError("unprocessable", `'${path}' is not a regular file.`);
    if (isKnown(request, info)) return sendUnchanged(reply, info);
    const range = satisfiableRange(request, reply, info);
    if (request.method === "HEAD") return describe(reply, info, range).send();
    const part = range && { offset: range.first, length: range.last - range.first + 1 };
    const opened = await timing.measure("guest", () => files.read(path, part));
    // The file may have been replaced since it was looked at: headers must fit the bytes.
    if (fileVersion(opened.info).etag === fileVersion(info).etag) return describe(reply, info, range).send(opened.body);
    opened.body.destroy();
    info = opened.info;
    if (attempt === openAttempts) throw new AppError("unprocessable", `'${path}' keeps changing while it is read.`);
  }
}

/** The client has the version there is. */
function isKnown(request: FastifyRequest, info: FileInfo): boolean {
  return namesVersion(request.headers["if-none-match"], fileVersion(info).etag);
}

function sendUnchanged(reply: FastifyReply, info: FileInfo): FastifyReply {
  const { etag, lastModified } = fileVersion(info);
  return reply.code(304).header("etag", etag).header("last-modified", lastModified).send();
}

function satisfiableRange(request: FastifyRequest, reply: FastifyReply, info: FileInfo): ByteRange | undefined {
  const ifRange = request.headers["if-range"];
  if (!rangeApplies(typeof ifRange === "string" ? ifRange : undefined, fileVersion(info))) return undefined;
  const range = parseRange(request.headers.range, info.sizeBytes);
  if (range !== "unsatisfiable") return range;
  reply.header("content-range", `bytes */${info.sizeBytes}`);
  throw new AppError("range_not_satisfiable", `The file has ${info.sizeBytes} bytes.`);
}

function describe(reply: FastifyReply, info: FileInfo, range: ByteRange | undefined): FastifyReply {
  const { etag, lastModified } = fileVersion(info);
  reply
    .type(contentType(info.name))
    .header("content-disposition", contentDisposition(info.name))
    .header("accept-ranges", "bytes")
    .header("etag", etag)
    .header("last-modified", lastModified);
  if (range === undefined) return reply.header("content-length", info.sizeBytes);
  return reply
    .code(206)
    .header("content-range", `bytes ${range.first}-${range.last}/${info.sizeBytes}`)
    .header("content-length", range.last - range.first + 1);
}
