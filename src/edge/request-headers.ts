// Changes the headers of a request before it goes on, in both forms in which whoever comes next may read them.
import type { IncomingMessage } from "node:http";

/** Names are in lower case. */
export function removeHeaders(request: IncomingMessage, isRemoved: (name: string) => boolean): void {
  for (const name of Object.keys(request.headers)) if (isRemoved(name)) delete request.headers[name];
  const { rawHeaders } = request;
  let kept = 0;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    if (isRemoved(rawHeaders[index]!.toLowerCase())) continue;
    rawHeaders[kept++] = rawHeaders[index]!;
    rawHeaders[kept++] = rawHeaders[index + 1]!;
  }
  rawHeaders.length = kept;
}

/** Whatever the caller sent under this name goes. */
export function setHeader(request: IncomingMessage, name: string, value: string): void {
  const lower = name.toLowerCase();
  removeHeaders(request, (each) => each === lower);
  request.headers[lower] = value;
  request.rawHeaders.push(name, value);
}
