// What a download's headers ask for (RFC 9110, sections 13 and 14): one range, and nothing that the client has; several ranges are answered with the whole file.

export type ByteRange = { first: number; last: number };

/** Undefined: answer the whole file. `unsatisfiable`: 416. A file without bytes is always answered whole. */
export function parseRange(header: string | undefined, sizeBytes: number): ByteRange | "unsatisfiable" | undefined {
  const match = /^bytes=(?:(\d+)-(\d+)?|-(\d+))$/i.exec(header?.replaceAll(" ", "") ?? "");
  if (match === null || sizeBytes === 0) return undefined;
  if (match[3] !== undefined) {
    const suffix = Number(match[3]);
    return suffix === 0 ? "unsatisfiable" : { first: Math.max(0, sizeBytes - suffix), last: sizeBytes - 1 };
  }
  const first = Number(match[1]);
  const last = match[2] === undefined ? sizeBytes - 1 : Math.min(Number(match[2]), sizeBytes - 1);
  if (match[2] !== undefined && Number(match[2]) < first) return undefined;
  return first >= sizeBytes ? "unsatisfiable" : { first, last };
}

/** Whether `If-Range` lets the range through: it must name exactly the version the file has now. */
export function rangeApplies(ifRange: string | undefined, version: { etag: string; lastModified: string }): boolean {
  return ifRange === undefined || ifRange === version.etag || ifRange === version.lastModified;
}

/** Whether `If-None-Match` has the version; caches on the way may have marked it as a weak one. */
export function namesVersion(ifNoneMatch: string | undefined, etag: string): boolean {
  const names = (ifNoneMatch ?? "").split(",").map((name) => name.trim().replace(/^W\//, ""));
  return names.includes(etag) || names.includes("*");
}
