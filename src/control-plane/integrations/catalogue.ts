// What a kind of service is, told to whoever wants to make a connection for it.
import type { Integration } from "../../contract/integration.ts";
import { AppError } from "../../core/errors.ts";
import { findKind, kindNames } from "./kinds.ts";
import type { Provider } from "./providers/provider.ts";

export function describeIntegration(name: string): Integration {
  const kind = findKind(name);
  if (kind === undefined) {
    throw new AppError("not_found", `There is no integration of this name; there are ${kindNames.join(", ")}.`);
  }
  const { displayName, secretKeys, models } = kind;
  const config = models && [models.addressKey, ...models.configKeys];
  return {
    name,
    additionalInfos: {
      displayName,
      secretKeys: secretKeys.join(", "),
      ...(config && { configKeys: config.join(", ") }),
      listsModels: String(models !== undefined),
      ...(models?.usualUrl !== undefined && { baseUrl: models.usualUrl }),
    },
    endpoints: models === undefined ? {} : describeEndpoints(models),
    headers: models?.usualUrl === undefined ? {} : { ...models.headers({}, undefined) },
    params: {},
    organizations: [],
    repositories: [],
  };
}

/** Which models there are depends on the credential: a connection tells. */
function describeEndpoints(models: Provider): Integration["endpoints"] {
  const exampleConfig = models.usualUrl === undefined ? { [models.addressKey]: "https://host.invalid" } : {};
  return Object.fromEntries(
    models.endpoints(exampleConfig).map(({ name, method }) => [name, { method, models: [], ignoreModels: [] }]),
  );
}
