// The multipart upload operations over HTTP.
import {
  abortUpload,
  completeUpload,
  initiateUpload,
  listParts,
  listUploads,
  type MultipartUpload,
  partNumberMax,
  type UploadedPart,
  uploadPart,
} from "../../contract/sandbox-api/multipart.ts";
import { AppError } from "../../core/errors.ts";
import { receiveFile } from "../files/form-upload.ts";
import { fileModeDefault, parsePermissions } from "../files/permissions.ts";
import { type App, isMultipart, route } from "../route.ts";
import { pathFromUrl } from "../sandbox-path.ts";
import type { StoredPart, UploadRecord } from "./upload-journal.ts";

const initiatePrefix = "/filesystem-multipart/initiate";

export function registerUploadRoutes(app: App): void {
  route(app, initiateUpload, ({ request, body, session: { machine, uploads } }) => {
    const path = pathFromUrl(request.raw.url!, initiatePrefix, machine);
    const { uploadId } = uploads.initiate(path, parsePermissions(body.permissions, fileModeDefault));
    return { uploadId, path };
  });

  route(app, listUploads, ({ session: { uploads } }) => ({ uploads: uploads.listOpen().map(uploadAnswer) }));

  route(
    app,
    uploadPart,
    async ({ request, params, query, session: { uploads }, timing }) => {
      uploads.get(params.uploadId);
      const partNumber = parsePartNumber(query.partNumber);
      if (!isMultipart(request)) throw new AppError("invalid_request", "The part must come as the form field 'file'.");
      return timing.measure("guest", async () => {
        const { result } = await receiveFile(request.raw, (file, _fields, signal) => {
          return uploads.receivePart(params.uploadId, partNumber, file, signal);
        });
        return { partNumber, etag: result.etag, size: result.sizeBytes };
      });
    },
    { acceptsForm: true },
  );

  route(app, listParts, ({ params, session: { uploads } }) => {
    const { uploadId, parts } = uploads.get(params.uploadId);
    return { uploadId, parts: sortedParts(parts).map(partAnswer) };
  });

  route(app, completeUpload, async ({ params, body, session: { uploads }, timing }) => {
    const { path } = await timing.measure("guest", () => uploads.complete(params.uploadId, body.parts));
    return { path, message: "Multipart upload completed successfully" };
  });

  route(app, abortUpload, async ({ params, session: { uploads }, timing }) => {
    const { path } = await timing.measure("guest", () => uploads.abort(params.uploadId));
    return { message: "Multipart upload aborted successfully", path };
  });
}

function parsePartNumber(text: string | undefined): number {
  const partNumber = /^\d{1,9}$/.test(text ?? "") ? Number(text) : 0;
  if (partNumber >= 1 && partNumber <= partNumberMax) return partNumber;
  throw new AppError("invalid_request", `partNumber must be a number from 1 to ${partNumberMax}`);
}

function sortedParts(parts: ReadonlyMap<number, StoredPart>): StoredPart[] {
  return [...parts.values()].sort((a, b) => a.partNumber - b.partNumber);
}

function partAnswer({ partNumber, etag, sizeBytes, uploadedAt }: StoredPart): UploadedPart {
  return { partNumber, etag, size: sizeBytes, uploadedAt };
}

function uploadAnswer({ uploadId, path, mode, initiatedAt, parts }: UploadRecord): MultipartUpload {
  const byNumber = sortedParts(parts).map((part) => [String(part.partNumber), partAnswer(part)] as const);
  return { uploadId, path, permissions: mode, initiatedAt, parts: Object.fromEntries(byNumber) };
}
