// From a request to the instance it is meant for: address, credential, workspace, route. Nothing here waits for a sleeping sandbox.
import type { IncomingMessage } from "node:http";
import { parseHostAddress, parsePathAddress } from "../contract/address.ts";
import type { Directory } from "../contract/host.ts";
import { AppError } from "../core/errors.ts";
import { timingOf } from "../core/timing.ts";
import { takeCredential } from "./credentials.ts";
import { GatewayError } from "./gateway-error.ts";

export type ResolveOptions = {
  directory: Directory;
  /** Path below which the path form lives, `/run`. */
  pathPrefix: string;
  sandboxDomain: string | undefined;
};

export type Target = { instanceId: string; rest: string };

type Address = { workspace: string | undefined; sandboxName: string; rest: string };

/** Throws a GatewayError when the request may not or cannot go anywhere. Another workspace's sandbox looks like none. */
export async function resolveTarget(request: IncomingMessage, options: ResolveOptions): Promise<Target> {
  const { directory } = options;
  const address = findAddress(request, options);
  const credential = takeCredential(request);
  const timing = timingOf(request);
  const startedAt = performance.now();
  const principal = await authenticate(directory, credential);
  timing.add("auth", performance.now() - startedAt);
  const missing = () => new GatewayError("WORKLOAD_NOT_FOUND", `There is no sandbox "${address.sandboxName}" here.`);
  if (address.workspace === undefined || principal.workspace !== address.workspace) throw missing();
  const route = directory.findRoute(address.workspace, address.sandboxName);
  if (route === undefined) throw missing();
  if (!route.enabled) throw new GatewayError("FORBIDDEN", "The sandbox is disabled and accepts no connections.");
  if (route.status !== "DEPLOYED") {
    throw new GatewayError("WORKLOAD_UNAVAILABLE", `The sandbox is ${route.status} and serves no requests.`);
  }
  return { instanceId: route.instanceId, rest: address.rest };
}

/** The sandbox that the Host header names, if there is a domain for that. */
export function findHostAddress(
  { headers }: IncomingMessage,
  sandboxDomain: string | undefined,
): ReturnType<typeof parseHostAddress> {
  return sandboxDomain === undefined ? undefined : parseHostAddress(headers.host ?? "", sandboxDomain);
}

function findAddress(request: IncomingMessage, { directory, pathPrefix, sandboxDomain }: ResolveOptions): Address {
  const url = request.url ?? "/";
  const byHost = findHostAddress(request, sandboxDomain);
  if (byHost !== undefined) {
    return { workspace: directory.findWorkspaceById(byHost.workspaceId), sandboxName: byHost.sandboxName, rest: url };
  }
  const byPath = parsePathAddress(url, pathPrefix);
  if (byPath === undefined) throw new GatewayError("ROUTE_NOT_FOUND", "No sandbox is served at this address.");
  return byPath;
}

async function authenticate(directory: Directory, credential: string) {
  try {
    return await directory.authenticate(credential);
  } catch (error) {
    if (error instanceof AppError && error.code === "unauthenticated") {
      throw new GatewayError("AUTHENTICATION_FAILED", "The credential is not valid.");
    }
    throw error;
  }
}
