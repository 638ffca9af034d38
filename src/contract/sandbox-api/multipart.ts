// Multipart uploads into a sandbox: parts in any order and in parallel, published as one file at completion.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";
import { PathMessage } from "./filesystem.ts";

export const partNumberMax = 10_000;

export const UploadedPart = Type.Object(
  {
    partNumber: Type.Integer(),
    etag: Type.String({ description: "The MD5 of its bytes in hexadecimal digits." }),
    size: Type.Integer(),
    uploadedAt: Type.String(),
  },
  { title: "UploadedPart" },
);
export type UploadedPart = Static<typeof UploadedPart>;

export const MultipartUpload = Type.Object(
  {
    uploadId: Type.String(),
    path: Type.String(),
    permissions: Type.Integer(),
    initiatedAt: Type.String(),
    parts: Type.Record(Type.String(), UploadedPart),
  },
  { title: "MultipartUpload" },
);
export type MultipartUpload = Static<typeof MultipartUpload>;

export const CompleteRequest = Type.Object({
  parts: Type.Array(Type.Object({ partNumber: Type.Integer(), etag: Type.String() })),
});
export type CompleteRequest = Static<typeof CompleteRequest>;

const ById = Type.Object({ uploadId: Type.String() });
const scope = "sandboxes:control";

export const initiateUpload = endpoint({
  method: "POST",
  path: "/filesystem-multipart/initiate/*",
  summary: "Begin a multipart upload to a path",
  tag: "filesystem-multipart",
  scope,
  body: Type.Optional(Type.Object({ permissions: Type.Optional(Type.String()) })),
  response: Type.Object({ uploadId: Type.String(), path: Type.String() }),
});

export const listUploads = endpoint({
  method: "GET",
  path: "/filesystem-multipart",
  summary: "List the multipart uploads that are neither completed nor aborted",
  tag: "filesystem-multipart",
  scope,
  response: Type.Object({ uploads: Type.Array(MultipartUpload) }),
});

export const uploadPart = endpoint({
  method: "PUT",
  path: "/filesystem-multipart/:uploadId/part",
  summary: "Upload or replace a part: form field `file`, part number in the query",
  tag: "filesystem-multipart",
  scope,
  params: ById,
  query: Type.Object({ partNumber: Type.Optional(Type.String()) }),
  response: Type.Object({ partNumber: Type.Integer(), etag: Type.String(), size: Type.Integer() }),
  errors: [409, 422],
});

export const listParts = endpoint({
  method: "GET",
  path: "/filesystem-multipart/:uploadId/parts",
  summary: "List the parts of an upload",
  tag: "filesystem-multipart",
  scope,
  params: ById,
  response: Type.Object({ uploadId: Type.String(), parts: Type.Array(UploadedPart) }),
});

export const completeUpload = endpoint({
  method: "POST",
  path: "/filesystem-multipart/:uploadId/complete",
  summary: "Join the named parts in the order of their numbers and publish the file",
  tag: "filesystem-multipart",
  scope,
  params: ById,
  body: CompleteRequest,
  response: PathMessage,
  errors: [409, 422],
});

export const abortUpload = endpoint({
  method: "DELETE",
  path: "/filesystem-multipart/:uploadId/abort",
  summary: "Abort an upload and remove all its parts",
  tag: "filesystem-multipart",
  scope,
  params: ById,
  response: PathMessage,
  errors: [409, 422],
});
