// From a request to the instance it is meant for: address, credential, workspace, route. Nothing here waits for a sleeping sandbox.
import type { IncomingMessage } from "node:http";
import { parseHostAddress, parsePathAddress } from "../contract/address.ts";
import type { Directory, Principal } from "../contract/host.ts";
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

export type Target = {
  instanceId: string;
  rest: string;
  /** Throws a GatewayError when the caller could not come to the sandbox any more. */
  recheck(): Promise<unknown>;
};

/** What using a sandbox needs, whatever is done inside. */
const controlScope = "sandboxes:control";

type Route = NonNullable<Awaited<ReturnType<Directory["findRoute"]>>>;
type Address = { workspace: string | undefined; sandboxName: string; rest: string };

/** Throws a GatewayError when the request may not or cannot go anywhere. Another workspace's sandbox looks like none. */
export async function resolveTarget(request: IncomingMessage, options: ResolveOptions): Promise<Target> {
  const { directory } = options;
  const credential = takeCredential(request, directory);
  const address = await findAddress(request, options);
  const startedAt = performance.now();
  const recheck = () => requireRoute(directory, credential, address);
  const { status, instanceId } = await recheck().finally(() => {
    timingOf(request).add("auth", performance.now() - startedAt);
  });
  if (status !== "DEPLOYED") {
    throw new GatewayError("WORKLOAD_UNAVAILABLE", `The sandbox is ${status} and serves no requests.`);
  }
  return { instanceId, rest: address.rest, recheck };
}

async function requireRoute(directory: Directory, credential: string, address: Address): Promise<Route> {
  const { workspace, scopes } = await authorize(directory, credential, address);
  if (!scopes.includes("admin") && !scopes.includes(controlScope)) {
    throw new GatewayError("FORBIDDEN", `This needs the scope ${controlScope}, which the credential does not have.`);
  }
  const route = await directory.findRoute(workspace, address.sandboxName);
  if (route === undefined) throw missing(address);
  if (!route.enabled) throw new GatewayError("FORBIDDEN", "The sandbox is disabled and accepts no connections.");
  return route;
}

function missing({ sandboxName }: Address): GatewayError {
  return new GatewayError("WORKLOAD_NOT_FOUND", `There is no sandbox "${sandboxName}" here.`);
}

/** The sandbox that the Host header names, if there is a domain for that. */
export function findHostAddress(
  { headers }: IncomingMessage,
  sandboxDomain: string | undefined,
): ReturnType<typeof parseHostAddress> {
  return sandboxDomain === undefined ? undefined : parseHostAddress(headers.host ?? "", sandboxDomain);
}

async function findAddress(
  request: IncomingMessage,
  { directory, pathPrefix, sandboxDomain }: ResolveOptions,
): Promise<Address> {
  const url = request.url ?? "/";
  const byHost = findHostAddress(request, sandboxDomain);
  if (byHost !== undefined) {
    const workspace = await directory.findWorkspaceById(byHost.workspaceId);
    return { workspace, sandboxName: byHost.sandboxName, rest: url };
  }
  const byPath = parsePathAddress(url, pathPrefix);
  if (byPath === undefined) throw new GatewayError("ROUTE_NOT_FOUND", "No sandbox is served at this address.");
  return byPath;
}

async function authorize(directory: Directory, credential: string, address: Address): Promise<Principal> {
  try {
    return await directory.authorize(credential, address.workspace);
  } catch (error) {
    if (error instanceof AppError && error.code === "forbidden") throw missing(address);
    if (error instanceof AppError && error.code === "unauthenticated") {
      throw new GatewayError("AUTHENTICATION_FAILED", "The credential is not valid.");
    }
    throw error;
  }
}
