// What a kind of service that offers models is: where it is reached, how it takes a credential, and how its models are read.
import type { ConnectionModel, EndpointConfiguration } from "../../../contract/integration.ts";
import { AppError } from "../../../core/errors.ts";
import type { Texts } from "../record.ts";

export type Provider = {
  /** The key of `spec.config` that says where the service is, when not at its usual address. */
  addressKey: string;
  /** Its usual address; undefined when every customer has another. */
  usualUrl: string | undefined;
  /** Other keys of `spec.config` that are read. */
  configKeys: readonly string[];
  /** Keys of `spec.secret` that may hold the credential, the documented one first. */
  secretKeys: readonly string[];
  /** Where its operations are, without a slash at the end; throws `invalid_request` when the settings do not say it. */
  baseUrl(config: Texts): string;
  /** Whether it can be asked without a credential, as services in one's own network often can. */
  isOpen?(config: Texts): boolean;
  headers(config: Texts, credential: string | undefined): Texts;
  /** All models, page after page, in the service's order. */
  listModels(ask: Ask, config: Texts): Promise<ConnectionModel[]>;
  /** Operations of the service, for whoever calls it themselves; without the credential. */
  endpoints(config: Texts): EndpointConfiguration[];
};

/** Asks a path below the base URL, or a whole URL of the same origin; resolves with the JSON of a successful answer. */
export type Ask = (pathOrUrl: string) => Promise<unknown>;

/** What an answer means that is JSON and still not what the service is known to say. */
export class UnexpectedAnswer extends Error {
  override readonly name = "UnexpectedAnswer";
}

const pagesMax = 50;
export const modelsMax = 10_000;

/** `readPage` returns the models of a page and what asks for the next one, if there is one. */
export async function readPages(
  readPage: (next: string | undefined) => Promise<{ models: ConnectionModel[]; next: string | undefined }>,
): Promise<ConnectionModel[]> {
  const models: ConnectionModel[] = [];
  const asked = new Set<string>();
  let next: string | undefined;
  for (let page = 0; page < pagesMax; page++) {
    const read = await readPage(next);
    models.push(...read.models);
    next = read.next;
    // Whoever asked refuses what is too much.
    if (next === undefined || models.length > modelsMax) return models;
    if (asked.has(next)) throw new UnexpectedAnswer("listed the same page again and again");
    asked.add(next);
  }
  throw new UnexpectedAnswer(`listed more than ${pagesMax} pages`);
}

export function bearer(credential: string | undefined): Texts {
  return keyHeader("authorization", credential && `Bearer ${credential}`);
}

export function keyHeader(name: string, value: string | undefined): Texts {
  return value === undefined ? {} : { [name]: value };
}

/** An address of the settings, or the usual one. Whether it may be asked is decided when it is. */
export function readBaseUrl(config: Texts, key: string, usual: string | undefined): string {
  const text = config[key] ?? usual;
  if (text === undefined || text === "") throw new AppError("invalid_request", `spec.config.${key} is required`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || /[?#]/.test(text)) {
    throw new AppError("invalid_request", `spec.config.${key} must be an absolute URL without a query`);
  }
  return url.href.replace(/\/+$/, "");
}

/** A setting that is sent as a header. */
export function readHeaderText(config: Texts, key: string): string | undefined {
  const text = config[key];
  if (text === undefined || text === "") return undefined;
  if (/^[\x21-\x7e]{1,256}$/.test(text)) return text;
  throw new AppError("invalid_request", `spec.config.${key} must be 1 to 256 visible ASCII characters`);
}
