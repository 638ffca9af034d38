// How the names of images become what a workspace is shown: one object for each repository, with its tags.
import type { HostImage } from "../../contract/host.ts";
import type { Image, ImageTag } from "../../contract/image.ts";
import type { ImageUse } from "./store.ts";

export const resourceType = "sandbox";

/** One name of an image, split. */
export type Entry = HostImage & { repository: string; tag: string; use: ImageUse | undefined };

/** One object for each repository, with its tags. */
export function present(entries: Entry[], workspace: string): Image[] {
  const byRepository = Map.groupBy(entries, ({ repository }) => repository);
  return [...byRepository].map(([name, tagged]) => {
    const tags = tagged.map(presentTag).sort((left, right) => (left.name < right.name ? -1 : 1));
    const sizes = tags.map(({ size }) => size);
    const lastDeployedAt = latest(tagged.flatMap(({ use }) => use?.lastUsedAt ?? []));
    return {
      metadata: {
        name,
        displayName: name,
        resourceType,
        status: "BUILT",
        workspace,
        createdAt: tags.map(({ createdAt }) => createdAt).sort()[0]!,
        updatedAt: latest(tags.map(({ updatedAt }) => updatedAt))!,
        ...(lastDeployedAt !== undefined && { lastDeployedAt }),
      },
      spec: {
        ...(sizes.every((size) => size !== undefined) && { size: sizes.reduce((sum, size) => sum + size, 0) }),
        tags,
      },
    };
  });
}

/** For the workspace a pulled image exists since it first used it. */
function presentTag({ tag, sizeBytes, updatedAt, use, kind }: Entry): ImageTag {
  const createdAt = kind === "pulled" && use !== undefined ? use.firstUsedAt : updatedAt;
  return {
    name: tag,
    createdAt,
    updatedAt: latest([createdAt, updatedAt])!,
    ...(sizeBytes !== undefined && { size: sizeBytes }),
  };
}

function latest(times: string[]): string | undefined {
  return times.toSorted().at(-1);
}

/** `registry/repository:tag` or `registry/repository@sha256:...`. */
export function splitName(name: string): { repository: string; tag: string } {
  const match = /^(?<repository>.+?)(?:@(?<digest>sha256:[0-9a-f]{64})|:(?<tag>[^:/@]+))$/.exec(name)?.groups;
  return { repository: match?.repository ?? name, tag: match?.digest ?? match?.tag ?? "latest" };
}
