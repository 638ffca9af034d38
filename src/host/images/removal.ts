// Removes pulled images nobody needs. A crash half-way leaves what the next start clears away.
import { existsSync, mkdtempSync, readdirSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import type { ImageHolds } from "./holds.ts";
import type { ImageUsers } from "./image-users.ts";
import type { ImageEntry, Images } from "./images.ts";
import type { PlatformImages } from "./platform-images.ts";
import type { PulledImages } from "./pulled-images.ts";
import { parseReference } from "./reference.ts";
import { processMark, removeTree } from "./work-dirs.ts";

export type RemovalParts = {
  imageDir: string;
  platform: PlatformImages;
  pulled: PulledImages;
  holds: ImageHolds;
  users: ImageUsers;
  describe: (name: string) => ImageEntry | undefined;
};

export function createRemoval({ imageDir, platform, pulled, holds, users, describe }: RemovalParts): Images["remove"] {
  return async (name, isUsed) => {
    const entry = describe(name);
    const reference = parseReference(name);
    if (entry?.kind !== "pulled" || reference === undefined) return "unknown";
    const isShared = platform.uses(entry.digest) || pulled.usesBesides(reference, entry.digest);
    // Nothing is awaited between these questions and the move: who comes later finds no image, and fetches it again.
    if (!isShared && (users.hasOthers() || pulled.isPulling() || holds.has(entry.digest) || isUsed(entry)))
      return "in_use";
    const gone = isShared ? Promise.resolve() : discardRoot(imageDir, entry.digest);
    pulled.forget(reference);
    await gone;
    return "removed";
  };
}

const discarded = "discarded";

/** The files are out of sight before anything is awaited. */
export function discardRoot(imageDir: string, digest: string): Promise<void> {
  const workDir = mkdtempSync(join(imageDir, "pulls/work", `${processMark()}-`));
  try {
    renameSync(join(imageDir, "rootfs", digest), join(workDir, discarded));
  } catch (error) {
    rmdirSync(workDir);
    throw error;
  }
  return removeTree(workDir);
}

/** Tries again what was out of sight but could not be removed, as was told then. */
export async function removeDiscarded(imageDir: string): Promise<void> {
  const parent = join(imageDir, "pulls/work");
  for (const name of readdirSync(parent)) {
    const workDir = join(parent, name);
    const isOwn = name.startsWith(`${processMark()}-`);
    if (isOwn && existsSync(join(workDir, discarded))) await removeTree(workDir).catch(() => undefined);
  }
}
