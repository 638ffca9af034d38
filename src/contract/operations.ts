// Every declared operation of the two HTTP surfaces by its name: documents, guards and tests walk these and can forget none.
import * as apiKey from "./api-key.ts";
import * as auditLog from "./audit-log.ts";
import type { Endpoint } from "./endpoint.ts";
import * as feature from "./feature.ts";
import * as image from "./image.ts";
import * as integration from "./integration.ts";
import * as location from "./location.ts";
import * as policy from "./policy.ts";
import * as preview from "./preview.ts";
import * as quota from "./quota.ts";
import * as sandbox from "./sandbox.ts";
import * as environment from "./sandbox-api/environment.ts";
import * as filesystem from "./sandbox-api/filesystem.ts";
import * as health from "./sandbox-api/health.ts";
import * as mcp from "./sandbox-api/mcp.ts";
import * as multipart from "./sandbox-api/multipart.ts";
import * as network from "./sandbox-api/network.ts";
import * as notOffered from "./sandbox-api/not-offered.ts";
import * as processes from "./sandbox-api/process.ts";
import * as search from "./sandbox-api/search.ts";
import * as terminal from "./sandbox-api/terminal.ts";
import * as upgrade from "./sandbox-api/upgrade.ts";
import * as watch from "./sandbox-api/watch.ts";
import * as serviceAccount from "./service-account.ts";
import * as volumeTemplate from "./volume-template.ts";
import * as workspace from "./workspace.ts";
import * as workspaceUser from "./workspace-user.ts";

/** An endpoint under the name it is exported by, e.g. `getSandbox`. */
export type Operation = Endpoint & { operationId: string };

/** Below `/v0`. */
export const controlPlaneOperations: readonly Operation[] = operationsOf(
  apiKey,
  auditLog,
  feature,
  image,
  integration,
  location,
  policy,
  preview,
  quota,
  sandbox,
  serviceAccount,
  volumeTemplate,
  workspace,
  workspaceUser,
);

/** Below the address of each sandbox. */
export const sandboxOperations: readonly Operation[] = operationsOf(
  environment,
  filesystem,
  health,
  mcp,
  multipart,
  network,
  notOffered,
  processes,
  search,
  terminal,
  upgrade,
  watch,
);

function operationsOf(...modules: object[]): Operation[] {
  return modules.flatMap((module) =>
    Object.entries(module as Record<string, unknown>)
      .filter((entry): entry is [string, Endpoint] => isEndpoint(entry[1]))
      .map(([operationId, declared]) => ({ ...declared, operationId })),
  );
}

function isEndpoint(value: unknown): value is Endpoint {
  return typeof value === "object" && value !== null && "method" in value && "path" in value && "scope" in value;
}
