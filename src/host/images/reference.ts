// Reads the name of an image in a registry. The grammar is strict because the text comes from a tenant and ends up in a program's argument.
export type ImageReference = {
  /** Host and optional port, lowercase, e.g. `docker.io` or `127.0.0.1:5000`. */
  registry: string;
  repository: string;
  /** What names the content: `:tag` or `@sha256:...`. */
  selector: string;
  /** Whether the content can never change. */
  pinned: boolean;
  /** The complete name: the key of a pull. */
  text: string;
};

const nameMaxLength = 255;
const registryPattern = /^[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9](?:[a-z0-9-]{0,62}))*(?::[0-9]{1,5})?$/;
const repositoryPattern = /^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;
const digestPattern = /^sha256:[0-9a-f]{64}$/;

/** Splits `[registry/]repository[:tag][@digest]` and fills in what is left out; undefined when it is not such a name. */
export function parseReference(text: string): ImageReference | undefined {
  if (text.length > nameMaxLength + 200) return undefined;
  const [named, digest, ...more] = text.split("@");
  if (named === undefined || more.length > 0) return undefined;
  if (digest !== undefined && !digestPattern.test(digest)) return undefined;
  const { registry, rest } = splitRegistry(named);
  const colon = rest.indexOf(":");
  const path = colon < 0 ? rest : rest.slice(0, colon);
  const tag = colon < 0 ? "latest" : rest.slice(colon + 1);
  const repository = registry === "docker.io" && !path.includes("/") ? `library/${path}` : path;
  if (!registryPattern.test(registry) || !repositoryPattern.test(repository) || !tagPattern.test(tag)) return undefined;
  if (registry.length + repository.length > nameMaxLength) return undefined;
  // A digest says more than a tag beside it, and the pulling program takes only one of them.
  const selector = digest === undefined ? `:${tag}` : `@${digest}`;
  const pinned = digest !== undefined;
  return { registry, repository, selector, pinned, text: `${registry}/${repository}${selector}` };
}

/** The first part is a registry when it could not be the first part of a repository: it has a dot or a port, or is localhost. */
function splitRegistry(named: string): { registry: string; rest: string } {
  const slash = named.indexOf("/");
  const first = named.slice(0, Math.max(slash, 0));
  if (slash < 0 || !(/[.:]/.test(first) || first === "localhost")) return { registry: "docker.io", rest: named };
  const registry = first.toLowerCase();
  return { registry: registry === "index.docker.io" ? "docker.io" : registry, rest: named.slice(slash + 1) };
}
