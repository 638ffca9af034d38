// Azure AI Foundry: every customer has an endpoint of their own. That of a resource lists the models it could use, that of a project
// the deployments there are, page after page by links.
import type { ConnectionModel, EndpointConfiguration } from "../../../contract/integration.ts";
import type { Texts } from "../record.ts";
import { listOf, type Members, membersOf, textOf, timeOf, tokensOf } from "./answer.ts";
import { keyHeader, type Provider, readBaseUrl, readHeaderText, readPages } from "./provider.ts";

const linkMaxLength = 2_048;

function baseUrl(config: Texts): string {
  return readBaseUrl(config, "endpoint", undefined).replace(/\/openai(\/v1)?$/, "");
}

function isProject(config: Texts): boolean {
  return /\/api\/projects\/[^/]+$/.test(baseUrl(config));
}

function version(config: Texts): string {
  return readHeaderText(config, "apiVersion") ?? (isProject(config) ? "v1" : "2024-10-21");
}

/** The versions without a date have paths of their own. */
function isUndated(config: Texts): boolean {
  return !/^\d{4}-/.test(version(config));
}

function query(config: Texts): string {
  return `api-version=${encodeURIComponent(version(config))}`;
}

function readModel(model: Members): ConnectionModel[] {
  const id = textOf(model.id);
  if (id === undefined) return [];
  const createdAt = timeOf(model.created_at ?? model.created);
  return [{ id, name: id, provider: "azure-ai-foundry", createdAt, contextWindow: tokensOf(model.context_length) }];
}

/** What is called is the deployment; the model behind it is told as its name. */
function readDeployment(deployment: Members): ConnectionModel[] {
  const id = textOf(deployment.name);
  if (id === undefined) return [];
  const version = textOf(deployment.modelVersion);
  const model = textOf(deployment.modelName);
  const name = model === undefined ? id : version === undefined ? model : `${model} ${version}`;
  return [{ id, name, provider: textOf(deployment.modelPublisher) ?? "azure-ai-foundry" }];
}

function endpoints(config: Texts): EndpointConfiguration[] {
  const base = baseUrl(config);
  if (isProject(config) || isUndated(config)) {
    const resource = base.replace(/\/api\/projects\/[^/]+$/, "");
    return [{ name: "chat", method: "POST", url: `${resource}/openai/v1/chat/completions` }];
  }
  return [
    {
      name: "chat",
      method: "POST",
      url: `${base}/openai/deployments/{deployment}/chat/completions?${query(config)}`,
    },
  ];
}

export const azureAiFoundry: Provider = {
  addressKey: "endpoint",
  usualUrl: undefined,
  configKeys: ["apiVersion"],
  secretKeys: ["apiKey", "AZURE_API_KEY", "AZURE_OPENAI_API_KEY"],
  baseUrl,
  headers: (_config, credential) => keyHeader("api-key", credential),
  async listModels(ask, config) {
    if (!isProject(config)) {
      const path = isUndated(config) ? "/openai/v1/models" : "/openai/models";
      return listOf(await ask(`${path}?${query(config)}`), "data").flatMap(readModel);
    }
    return readPages(async (link) => {
      const answer = await ask(link ?? `/deployments?${query(config)}`);
      const { nextLink } = membersOf(answer);
      const next =
        typeof nextLink === "string" && nextLink !== "" && nextLink.length <= linkMaxLength ? nextLink : undefined;
      return { models: listOf(answer, "value").flatMap(readDeployment), next };
    });
  },
  endpoints,
};
