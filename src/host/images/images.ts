// Resolves the image names callers use to root file systems on this host: the platform's own first, then references to registries.
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { HostImage } from "../../contract/host.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { type CollectOptions, ImageCollection } from "./collection.ts";
import { PullFailure } from "./copy-from-registry.ts";
import { ImageHolds } from "./holds.ts";
import { ImageUsers } from "./image-users.ts";
import { ImageDefect } from "./oci-layout.ts";
import { PlatformImages } from "./platform-images.ts";
import { PulledImages } from "./pulled-images.ts";
import { parseReference } from "./reference.ts";
import { createRemoval } from "./removal.ts";
import { ImageSizes } from "./sizes.ts";

export type ImagesOptions = {
  imageDir: string;
  /** Whose instances run on the images; nobody's when it is left out. */
  dataDir?: string;
  log: Logger;
  /** `host:port` of registries that may be on inner addresses and speak plain HTTP. */
  insecureRegistries: string[];
  idRangeStart: number;
  /** Limit of an image, of what is fetched as of what it unpacks to. */
  maxImageBytes: number;
};

export type ResolvedImage = {
  /** The complete form of the name that was asked for. */
  name: string;
  /** 64 hex digits; equal for equal content. */
  digest: string;
  /** Read-only by convention: instances lay their own writable layer over it. Only root may enter. */
  rootDir: string;
  environment: Record<string, string>;
  workingDir: string;
  homeDir: string;
};

/** What is known of an image under one of its names. */
export type ImageEntry = Omit<HostImage, "sizeBytes"> & { digest: string };

export interface Images extends AsyncDisposable {
  /**
   * Pulls when needed. Rejects with `invalid_request` and `details.code` INVALID_IMAGE whatever is wrong with the image, and with
   * `unavailable` when this host cannot pull now.
   */
  resolve(name: string, signal?: AbortSignal): Promise<ResolvedImage>;
  /** What is present on this host, without asking anyone. */
  find(name: string): ResolvedImage | undefined;
  /** Names of the platform images. */
  list(): string[];
  /** Keeps the image's files until disposed; taken without waiting for anything after `find` or `resolve`. */
  hold(image: ResolvedImage): Disposable;
  describe(name: string): ImageEntry | undefined;
  describeAll(): Promise<HostImage[]>;
  /** `isUsed` says whether instances need the content; asked in the moment before the files are moved away. */
  remove(name: string, isUsed: (image: ImageEntry) => boolean): Promise<"removed" | "in_use" | "unknown">;
  /** Removes what nobody has used for a long time, and resolves with its digests. */
  collect(options: CollectOptions): Promise<string[]>;
}

export async function openImages(options: ImagesOptions): Promise<Images> {
  const { imageDir, idRangeStart } = options;
  for (const dir of ["rootfs", "platform", "references", "work"])
    mkdirSync(join(imageDir, dir), { recursive: true, mode: 0o700 });
  // Images hold set-id programs and file capabilities of strangers: the machine's other users must not get at them.
  chmodSync(imageDir, 0o700);
  const platform = new PlatformImages(imageDir, idRangeStart);
  const pulled = new PulledImages(options);
  await pulled.open();
  const sizes = new ImageSizes(imageDir, options.log);
  const holds = new ImageHolds();
  const users = new ImageUsers(imageDir, options.dataDir);
  const collection = new ImageCollection({ imageDir, platform, pulled, holds, users, log: options.log });

  const describe = (name: string): ImageEntry | undefined => {
    if (platform.claims(name) || platform.find(name) !== undefined) return platform.describe(name);
    const reference = parseReference(name);
    return reference === undefined ? undefined : pulled.describe(reference);
  };

  const invalid = (name: string, reason: string, cause?: unknown): AppError => {
    const details = { code: "INVALID_IMAGE", requested_image: name.slice(0, 512), supported_images: platform.list() };
    return new AppError("invalid_request", `The image ${details.requested_image} cannot be used. ${reason}`, {
      cause,
      details,
    });
  };
  const resolve = async (name: string): Promise<ResolvedImage> => {
    const own = platform.find(name);
    if (own !== undefined) return own;
    if (platform.claims(name)) throw invalid(name, "The platform has no image of that name.");
    const reference = parseReference(name);
    if (reference === undefined) throw invalid(name, "It is not the name of an image.");
    try {
      return await pulled.resolve(reference);
    } catch (error) {
      if (error instanceof PullFailure || error instanceof ImageDefect) throw invalid(name, error.message, error);
      throw error;
    }
  };
  return {
    resolve: (name, signal) => abandonable(resolve(name), signal),
    find(name) {
      const own = platform.find(name);
      if (own !== undefined || platform.claims(name)) return own;
      const reference = parseReference(name);
      return reference === undefined ? undefined : pulled.find(reference);
    },
    list: () => platform.list(),
    hold: (image) => holds.hold(image.digest),
    describe,
    async describeAll() {
      const entries = [...platform.list(), ...pulled.names()].map(describe).filter((entry) => entry !== undefined);
      await sizes.measure(entries.map(({ digest }) => digest));
      return entries.map(({ digest, ...entry }) => {
        const sizeBytes = sizes.find(digest);
        return { ...entry, ...(sizeBytes !== undefined && { sizeBytes }) };
      });
    },
    remove: createRemoval({ imageDir, platform, pulled, holds, users, describe }),
    collect: (asked) => collection.collect(asked),
    [Symbol.asyncDispose]: () => pulled[Symbol.asyncDispose](),
  };
}

/** A caller may give up waiting; the pull goes on for the others and for the next time. */
function abandonable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}
