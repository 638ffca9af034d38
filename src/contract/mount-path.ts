// Where callers see a server inside a sandbox: told by the edge where that is not below `/port/{n}` of the sandbox's own address.
import type { IncomingMessage } from "node:http";

const mountPaths = new WeakMap<IncomingMessage, string>();

/** `path` is empty, or begins with a slash and does not end with one. */
export function setMountPath(request: IncomingMessage, path: string): void {
  mountPaths.set(request, path);
}

export function mountPathOf(request: IncomingMessage): string | undefined {
  return mountPaths.get(request);
}
