// The whole platform in one process: what `catnap up` runs and what the end-to-end tests start.
import { join } from "node:path";
import type { Platform, PlatformOptions } from "../contract/platform.ts";
import { defaultImage } from "../contract/sandbox-spec.ts";
import { readControlPlaneConfig, readProxies } from "../control-plane/config.ts";
import { openControlPlane } from "../control-plane/context.ts";
import { readOutgoingConfig } from "../control-plane/outgoing/config.ts";
import { Outgoing } from "../control-plane/outgoing/outgoing.ts";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { SealKey } from "../core/seal.ts";
import { readSealKeySource, SealKeys } from "../core/seal-keys.ts";
import { readInteger, type Settings } from "../core/settings.ts";
import { createEdge } from "../edge/server.ts";
import { type HostConfig, readHostConfig } from "../host/config.ts";
import { openHost, type RunningHost } from "../host/context.ts";
import type { Driver } from "../host/drivers/driver.ts";
import { openGuest } from "../host/guest/guest.ts";
import { idRange } from "../host/images/id-range.ts";
import { openImages } from "../host/images/images.ts";
import { createSandboxApi } from "../sandbox-api/app.ts";
import { makeDataDir } from "./data-dir.ts";
import { defaultDriver } from "./driver.ts";
import { createInitSource } from "./init-source.ts";
import { listenerLimits, openListener } from "./listener.ts";
import { lockDataDir } from "./lock.ts";
import { openOperatorSocket } from "./operator-socket.ts";
import { projectRoot } from "./project.ts";
import { openTls, readTlsFiles } from "./tls.ts";
import { readVersion, type Version } from "./version.ts";

/** Path below which sandboxes answer in the path form of their address. */
const pathPrefix = "/run";

const noDefaultImage = {
  problem: `The image ${defaultImage} is not there: a sandbox that names no other cannot be made.`,
  remedy: "`npm run setup` builds it, also while the platform runs.",
};

type DevOptions = PlatformOptions & {
  /** Another driver than the OCI one, for tests. */
  createDriver?: (config: HostConfig, log: Logger) => Driver;
};

/** Resolves when the platform serves requests. Disposing it puts every sandbox to sleep and stops serving; they outlive the process. */
export async function startPlatform(options: DevOptions): Promise<Platform> {
  const { env, overrides = {}, log, createDriver, saveFirstKey, onStep = () => undefined } = options;
  const settings = { ...env, ...overrides };
  const hostConfig = readHostConfig(settings, projectRoot);
  const { dataDir } = hostConfig;
  makeDataDir(dataDir);
  const version = readVersion(projectRoot);

  await using opened = new AsyncDisposableStack();
  opened.use(await lockDataDir(dataDir));
  const { listener, isSecure } = await openFront(settings, opened, log);
  const driver = opened.use(createDriver?.(hostConfig, log) ?? defaultDriver(hostConfig, log).driver);
  const sealKeys = new SealKeys(readSealKeySource(settings, join(dataDir, "seal.key")));
  onStep("taking back the instances of before");
  const host = opened.use(
    await startHost({ config: hostConfig, settings, driver, sealKey: sealKeys.key, version, log, opened }),
  );
  const config = readControlPlaneConfig(settings, {
    dataDir,
    origin: publicOrigin(settings, listener.origin),
    pathPrefix,
  });
  // A certificate is for the name callers use, and seldom for the address listened on.
  const url = isSecure ? config.origin : listener.origin;
  onStep("opening the database");
  const controlPlane = opened.use(
    await openControlPlane({
      config,
      host,
      log,
      sealKeys,
      saveFirstKey: (apiKey) => saveFirstKey?.(apiKey, { url, dataDir }),
    }),
  );
  onStep("bringing sandboxes and instances together");
  await controlPlane.reconcile();
  opened.use(
    await openOperatorSocket(dataDir, (request, response) => controlPlane.operatorApp.routing(request, response)),
  );
  const edge = createEdge({
    directory: controlPlane.directory,
    host,
    pathPrefix,
    sandboxDomain: config.address.sandboxDomain,
    isSecure: config.address.scheme === "https",
    log,
  });
  listener.serve({
    controlPlane: (request, response) => controlPlane.app.routing(request, response),
    edge,
  });
  const stack = opened.move();
  return {
    url,
    dataDir,
    region: config.region,
    workspace: controlPlane.bootstrap.workspace,
    idleTimeoutMs: hostConfig.idleTimeoutMs,
    firstApiKey: controlPlane.bootstrap.apiKey,
    problems: host.findImage(defaultImage) === undefined ? [noDefaultImage] : [],
    warmed: () => host.warmed(),
    async [Symbol.asyncDispose]() {
      // Callers first: nothing may still use a sandbox when it is put to sleep.
      await listener[Symbol.asyncDispose]();
      await stack.disposeAsync();
    },
  };
}

async function openFront(settings: Settings, opened: AsyncDisposableStack, log: Logger) {
  const connectionsMax = readInteger(settings, "CATNAP_CONNECTIONS_MAX", listenerLimits.connectionsMax, {
    min: 10,
    max: 1_000_000,
  });
  const files = readTlsFiles(settings);
  const tls = files === undefined ? undefined : opened.use(openTls({ files, log }));
  const proxies = readProxies(settings);
  const limits = { ...listenerLimits, connectionsMax };
  const listener = opened.use(await openListener(settings.CATNAP_LISTEN ?? "127.0.0.1:4000", limits, { tls, proxies }));
  return { listener, isSecure: tls !== undefined };
}

/** The origin clients use; behind a proxy it is not the one this process listens on. */
function publicOrigin(settings: Readonly<Record<string, string | undefined>>, listening: string): string {
  const text = settings.CATNAP_PUBLIC_URL || listening;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (
    url === undefined ||
    !/^https?:$/.test(url.protocol) ||
    url.pathname !== "/" ||
    url.search !== "" ||
    url.username !== ""
  ) {
    throw new AppError("invalid_request", "CATNAP_PUBLIC_URL must be an origin such as https://sandboxes.example.com");
  }
  return url.origin;
}

async function startHost(options: {
  config: HostConfig;
  driver: Driver;
  sealKey: SealKey;
  version: Version;
  log: Logger;
  settings: Settings;
  opened: AsyncDisposableStack;
}): Promise<RunningHost> {
  const { config, settings, driver, sealKey, version, log, opened } = options;
  const { dataDir, imageDir, insecureRegistries, imageMaxBytes } = config;
  const images = opened.use(
    await openImages({
      imageDir,
      dataDir,
      insecureRegistries,
      maxImageBytes: imageMaxBytes,
      idRangeStart: idRange.start,
      log,
    }),
  );
  const outgoing = readOutgoingConfig(settings);
  const inits = createInitSource({
    version: version.version,
    guestBinary: config.guestBinary,
    openOutgoing: (limits) => new Outgoing({ ...outgoing, limits }),
  });
  const { multipartTtlMs } = config;
  const sandboxApi = opened.use(createSandboxApi({ log, ...version, startedAt: new Date(), inits, multipartTtlMs }));
  return openHost({ config, driver, images, sandboxApi, openGuest, sealKey, log });
}
