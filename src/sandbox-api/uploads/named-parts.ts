// The parts that a completion names: each has to be there as it is named, once.
import { type CompleteRequest, partNumberMax } from "../../contract/sandbox-api/multipart.ts";
import { AppError } from "../../core/errors.ts";
import type { StoredPart, UploadRecord } from "./upload-journal.ts";

/** In the order of their numbers. */
export function namedParts(upload: UploadRecord, named: CompleteRequest["parts"]): StoredPart[] {
  if (named.length === 0) throw new AppError("invalid_request", "parts is empty");
  if (named.length > partNumberMax)
    throw new AppError("invalid_request", `parts has more than ${partNumberMax} entries`);
  const chosen = new Map<number, StoredPart>();
  for (const { partNumber, etag } of named) {
    const part = upload.parts.get(partNumber);
    if (part === undefined) throw new AppError("invalid_request", `Part ${partNumber} was not uploaded.`);
    if (part.etag !== etag.replace(/^"(.*)"$/, "$1")) {
      throw new AppError(
        "invalid_request",
        `Part ${partNumber} has the etag ${part.etag}, which is not the one given.`,
      );
    }
    if (chosen.has(partNumber)) throw new AppError("invalid_request", `Part ${partNumber} is named twice.`);
    chosen.set(partNumber, part);
  }
  return [...chosen.values()].sort((a, b) => a.partNumber - b.partNumber);
}
