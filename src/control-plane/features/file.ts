// The features file: what the operator's configuration says of features, read again when it changes; a broken one changes nothing.
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from "node:fs";
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { featureNameMaxLength, featureNamePattern, featurePayloadMaxBytes } from "../../contract/feature.ts";
import { FeatureSetting } from "../../contract/operator/features.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { startLoop } from "../../core/loop.ts";

const fileMaxBytes = 1024 * 1024;
const rereadIntervalMs = 1_000;
export const featuresMax = 1_000;

const SettingInFile = Type.Union([
  Type.Boolean(),
  Type.Object(FeatureSetting.properties, { additionalProperties: false }),
]);
const Settings = Type.Record(Type.String({ pattern: featureNamePattern }), SettingInFile, {
  additionalProperties: false,
  maxProperties: featuresMax,
});
const FeaturesFileContent = Type.Object(
  {
    default: Type.Optional(Settings),
    workspaces: Type.Optional(Type.Record(Type.String({ pattern: "^[a-z0-9-]{1,63}$" }), Settings)),
  },
  { additionalProperties: false },
);
type FeaturesFileContent = Static<typeof FeaturesFileContent>;

const validator = Compile(FeaturesFileContent);

type ByName = ReadonlyMap<string, FeatureSetting>;

export type FeaturesFile = AsyncDisposable & {
  readonly path: string | undefined;
  /** Why the file as it is now is not in effect. */
  problem(): string | undefined;
  /** What stands under the workspace's own name. */
  ofWorkspace(workspace: string): ByName;
  /** What stands there for all. */
  defaults(): ByName;
};

const nothing: ByName = new Map();

/** Throws when the file is missing or wrong: a platform does not start on settings nobody meant. */
export function openFeaturesFile(path: string | undefined, log: Logger): FeaturesFile {
  if (path === undefined) {
    return {
      path,
      problem: () => undefined,
      ofWorkspace: () => nothing,
      defaults: () => nothing,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }
  let { content, stamp } = readFeaturesFile(path);
  let problem: string | undefined;
  const reread = (): Promise<void> => {
    const now = stampOf(path);
    if (now === stamp) return Promise.resolve();
    stamp = now;
    try {
      ({ content, stamp } = readFeaturesFile(path));
      problem = undefined;
      log.info({ path }, "the features file was read again");
    } catch (error) {
      problem = error instanceof AppError ? error.message : String(error);
      log.error({ path, err: error }, "the features file is not usable; the last good one stays in effect");
    }
    return Promise.resolve();
  };
  const loop = startLoop({ name: "features file", intervalMs: rereadIntervalMs, log, work: reread });
  return {
    path,
    problem: () => problem,
    ofWorkspace: (workspace) => content.workspaces.get(workspace) ?? nothing,
    defaults: () => content.defaults,
    [Symbol.asyncDispose]: () => loop[Symbol.asyncDispose](),
  };
}

type Content = { defaults: ByName; workspaces: ReadonlyMap<string, ByName> };

function readFeaturesFile(path: string): { content: Content; stamp: string } {
  const { text, stamp } = readBounded(path);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw wrong(`is not JSON: ${cause instanceof Error ? cause.message : ""}`, cause);
  }
  if (!validator.Check(parsed)) {
    const [first] = validator.Errors(parsed).filter(({ keyword }) => keyword !== "boolean");
    throw wrong(`is wrong at ${first?.instancePath || "its top"}: ${first?.message ?? "unknown"}`);
  }
  const workspaces = Object.entries(parsed.workspaces ?? {});
  return {
    stamp,
    content: {
      defaults: readSettings(parsed.default ?? {}),
      workspaces: new Map(workspaces.map(([workspace, settings]) => [workspace, readSettings(settings)])),
    },
  };
}

function readSettings(settings: NonNullable<FeaturesFileContent["default"]>): ByName {
  return new Map(
    Object.entries(settings).map(([name, given]) => {
      if (name.length > featureNameMaxLength) throw wrong(`has a name longer than ${featureNameMaxLength} characters`);
      const setting = typeof given === "boolean" ? { enabled: given } : given;
      requirePayloadSize(setting, name);
      return [name, setting];
    }),
  );
}

/** Throws when the payload is larger than answers should carry. */
export function requirePayloadSize({ payload }: FeatureSetting, name: string): void {
  if (payload === undefined || Buffer.byteLength(JSON.stringify(payload)) <= featurePayloadMaxBytes) return;
  throw new AppError("invalid_request", `payload of ${name} must have at most ${featurePayloadMaxBytes} bytes`);
}

/** Not by name twice: what is measured is what is read. A pipe, which would never end, is refused. */
function readBounded(path: string): { text: string; stamp: string } {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw wrong(`cannot be read (${(cause as NodeJS.ErrnoException).code})`, cause);
  }
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) throw wrong("is not a file");
    if (stats.size > fileMaxBytes) throw wrong(`has more than ${fileMaxBytes} bytes`);
    return { text: readFileSync(file, "utf8"), stamp: formatStamp(stats) };
  } finally {
    closeSync(file);
  }
}

function stampOf(path: string): string {
  try {
    return formatStamp(statSync(path));
  } catch {
    return "unreadable";
  }
}

function formatStamp({ ino, size, mtimeMs, ctimeMs }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
}

function wrong(what: string, cause?: unknown): AppError {
  return new AppError("invalid_request", `The features file (CATNAP_FEATURES_FILE) ${what}`, { cause });
}
