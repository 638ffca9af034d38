// What the tests of images share: a scratch image directory, images opened on it, and what must be true of it afterwards.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { pino } from "pino";
import { AppError } from "../../src/core/errors.ts";
import type { Logger } from "../../src/core/log.ts";
import { runCommand } from "../../src/core/run-command.ts";
import { idRange } from "../../src/host/images/id-range.ts";
import { type Images, type ImagesOptions, openImages } from "../../src/host/images/images.ts";

export type LogLine = { msg: string; level: number } & Record<string, unknown>;

export type ImageStore = AsyncDisposable & {
  readonly imageDir: string;
  readonly log: Logger;
  readonly logged: LogLine[];
  open(options?: Partial<ImagesOptions>): Promise<Images>;
};

export async function makeImageStore(): Promise<ImageStore> {
  const imageDir = await mkdtemp(join(tmpdir(), "catnap-images-"));
  const logged: LogLine[] = [];
  const lines = new Writable({
    write(chunk: Buffer, _encoding, done) {
      logged.push(JSON.parse(chunk.toString()) as LogLine);
      done();
    },
  });
  const log = pino({ level: "debug" }, lines);
  const defaults = {
    imageDir,
    log,
    insecureRegistries: [],
    idRangeStart: idRange.start,
    maxImageBytes: 64 * 1024 ** 2,
  };
  return {
    imageDir,
    log,
    logged,
    open: (options) => openImages({ ...defaults, ...options }),
    [Symbol.asyncDispose]: () => rm(imageDir, { recursive: true, force: true }),
  };
}

/** Asserts that resolving fails the way the specification says, and returns the message. */
export async function assertInvalid(images: Images, name: string): Promise<string> {
  const error = await images.resolve(name).then(
    (image) => assert.fail(`${name} resolved to ${image.digest}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, "invalid_request");
  assert.equal(error.details?.code, "INVALID_IMAGE");
  assert.equal(error.details?.requested_image, name.slice(0, 512));
  assert.deepEqual(error.details?.supported_images, images.list());
  return error.message;
}

/** Asserts that no pull left anything half-made. */
export async function assertNoWork(imageDir: string): Promise<void> {
  assert.deepEqual(await readdir(join(imageDir, "pulls/work")), []);
  assert.deepEqual(await readdir(join(imageDir, "work")), []);
}

/** Asserts that every file of a root belongs to the unprivileged range and none is a device. */
export async function assertConfined(rootDir: string): Promise<void> {
  const { start, count } = idRange;
  const ids = ["uid", "gid"].flatMap((id) => [`-${id}`, `-${start}`, "-o", `-${id}`, `+${start + count - 1}`, "-o"]);
  const { stdout } = await runCommand("find", [rootDir, "(", ...ids, "-type", "b", "-o", "-type", "c", ")"]);
  assert.equal(stdout, "");
}
