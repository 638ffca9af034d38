// How a server inside a sandbox is shown to callers, told by the edge where that is not below `/port/{n}` of the sandbox's own address.
import type { IncomingMessage } from "node:http";

export type Exposure = {
  /** Where callers see the server: empty, or a path without a slash at its end. Undefined: below `/port/{n}` as ever. */
  mountPath: string | undefined;
  /** The headers, names and values in turn, that an answer to a WebSocket's request may have; other answers pass the edge anyway. */
  filterAnswer: (headers: string[]) => string[];
  /**
   * Set where browsers take pages for nobody's, so that no cookie comes with what they ask for: the token with which a page of the
   * sandbox API itself comes back. No program inside is ever told it.
   */
  pageToken?: string | undefined;
};

const exposures = new WeakMap<IncomingMessage, Exposure>();

export function setExposure(request: IncomingMessage, exposure: Exposure): void {
  exposures.set(request, exposure);
}

export function exposureOf(request: IncomingMessage): Exposure | undefined {
  return exposures.get(request);
}
