// Images as a workspace sees them: the platform's, and those its own sandboxes have had pulled. What others pulled does not exist for it.
import type { Host, InstanceRequest } from "../../contract/host.ts";
import type { Image, SandboxDefinition } from "../../contract/image.ts";
import { BoundedMap } from "../../core/bounded-map.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Caller } from "../auth/caller.ts";
import { type Entry, present, resourceType, splitName } from "./present.ts";
import type { ImageStore } from "./store.ts";

export type ImageServiceOptions = {
  host: Host;
  store: ImageStore;
  log: Logger;
  memoryDefaultMb: number;
  findWorkspaceId: (workspace: string) => Promise<string | undefined>;
};

const namesMax = 1_000;
const noteIntervalMs = 60_000;
const namesShownMax = 5;

export class ImageService {
  readonly #options: ImageServiceOptions;
  /** By workspace and image, so that a workspace that makes many sandboxes writes little. */
  readonly #notedAtMs = new BoundedMap<string, number>(10_000);

  constructor(options: ImageServiceOptions) {
    this.#options = options;
  }

  /** Never rejects: a sandbox that was made is not undone because this could not be written. */
  async noteUse({ workspace, image }: InstanceRequest): Promise<void> {
    const { host, store, log, findWorkspaceId } = this.#options;
    try {
      const found = host.findImage(image);
      const workspaceId = found && (await findWorkspaceId(workspace));
      if (found === undefined || workspaceId === undefined) return;
      const key = `${workspaceId} ${found.name}`;
      if (Date.now() - (this.#notedAtMs.get(key) ?? 0) < noteIntervalMs) return;
      await store.note(workspaceId, found.name, namesMax);
      this.#notedAtMs.set(key, Date.now());
    } catch (error) {
      log.error({ workspace, err: error }, "the use of an image was not recorded");
    }
  }

  async list(caller: Caller): Promise<Image[]> {
    return present(await this.#entriesOf(caller), caller.workspace);
  }

  async get(caller: Caller, type: string, repository: string): Promise<Image> {
    return present(await this.#select(caller, type, repository), caller.workspace)[0]!;
  }

  async delete(caller: Caller, type: string, repository: string, tag?: string): Promise<Image> {
    const entries = await this.#select(caller, type, repository, tag);
    for (const entry of entries) {
      if (entry.kind === "platform") throw new AppError("invalid_request", `${entry.name} belongs to the platform.`);
      const users = this.#usersOf(caller, entry);
      if (users.length === 0) continue;
      const shown = users.slice(0, namesShownMax).join(", ");
      throw new AppError("invalid_request", `${entry.name} is in use by ${users.length} sandboxes: ${shown}.`);
    }
    const [image] = present(entries, caller.workspace);
    for (const entry of entries) await this.#forget(caller, entry);
    return image!;
  }

  /** Also takes away what no workspace has used any more, without telling: it may have been another's. */
  async cleanUp(caller: Caller): Promise<{ deleted: number; message: string }> {
    const { host, store } = this.#options;
    const pulled = (await this.#entriesOf(caller)).filter(({ kind }) => kind === "pulled");
    const unused = pulled.filter((entry) => this.#usersOf(caller, entry).length === 0);
    for (const entry of unused) await this.#forget(caller, entry);
    for (const { name, kind } of await host.describeImages()) {
      if (kind === "pulled" && !(await store.hasUser(name))) await host.removeImage(name);
    }
    const what = unused.length === 1 ? "1 image was" : `${unused.length} images were`;
    return { deleted: unused.length, message: `${what} deleted; ${pulled.length - unused.length} in use.` };
  }

  async hub(): Promise<SandboxDefinition[]> {
    const { host, memoryDefaultMb } = this.#options;
    const platform = (await host.describeImages()).filter(({ kind }) => kind === "platform");
    return platform.map(({ name, description = "" }) => {
      const short = splitName(name).repository.replace(/^.*\//, "");
      return {
        name: short,
        displayName: short,
        description,
        image: name,
        memory: memoryDefaultMb,
        ports: [],
        categories: [],
        tags: "",
        hidden: false,
        enterprise: false,
        coming_soon: false,
      };
    });
  }

  async #entriesOf({ workspaceId }: Caller): Promise<Entry[]> {
    const { host, store } = this.#options;
    const [images, uses] = await Promise.all([host.describeImages(), store.list(workspaceId)]);
    const byName = new Map(uses.map((use) => [use.name, use]));
    return images
      .map((image) => ({ ...image, ...splitName(image.name), use: byName.get(image.name) }))
      .filter(({ kind, use }) => kind === "platform" || use !== undefined);
  }

  async #select(caller: Caller, type: string, repository: string, tag?: string): Promise<Entry[]> {
    const isKnownType = type === resourceType || type === `${resourceType}es`;
    const entries = isKnownType ? await this.#entriesOf(caller) : [];
    const wanted = entries.filter((entry) => entry.repository === repository && (tag ?? entry.tag) === entry.tag);
    if (wanted.length === 0) throw new AppError("not_found", "There is no such image.");
    return wanted;
  }

  /** Names of the workspace's sandboxes that run on the image. */
  #usersOf({ workspace }: Caller, { name }: Entry): string[] {
    return this.#options.host
      .listInstances()
      .filter((instance) => instance.workspace === workspace && instance.image === name)
      .map(({ sandboxName }) => sandboxName);
  }

  /** The files go when no workspace is left that has used them; a host that still needs them keeps them. */
  async #forget({ workspaceId }: Caller, { name }: Entry): Promise<void> {
    const { host, store } = this.#options;
    await store.forget(workspaceId, name);
    this.#notedAtMs.delete(`${workspaceId} ${name}`);
    if (!(await store.hasUser(name))) await host.removeImage(name);
  }
}
