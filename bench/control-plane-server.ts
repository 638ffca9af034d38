// A control plane in a process of its own, whose host makes every instance at once: what is measured is the store and the API.
// Usage: fork with DATA_DIR as argument and CATNAP_DATABASE_URL in the environment, or without it for SQLite.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Host } from "../src/contract/host.ts";
import { readControlPlaneConfig } from "../src/control-plane/config.ts";
import { openControlPlane } from "../src/control-plane/context.ts";
import { createLogger } from "../src/core/log.ts";

const dataDir = process.argv[2] ?? "";
const host: Host = {
  createInstance: async () => undefined,
  deleteInstance: async () => undefined,
  instanceStatus: () => ({ state: "STANDBY", lastUsedAt: "2026-01-01T00:00:00.000Z", errors: [] }),
  listInstances: () => [],
  listImages: () => [],
  findImage: () => undefined,
  describeImages: async () => [],
  removeImage: async () => "unknown",
  handle: (_instanceId, _request, response) => void response.writeHead(501).end(),
  resealInstances: () => Promise.resolve({ resealed: 0, unreadable: 0 }),
  upgrade: (_instanceId, _request, socket) => void socket.destroy(),
};
const server = createServer((request, response) => controlPlane.app.routing(request, response));
// Measured in turns: a connection waits longer for its next one than servers wait by themselves.
server.keepAliveTimeout = 0;
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const settings = { ...process.env, CATNAP_SANDBOXES_MAX: "1000000", CATNAP_REQUESTS_PER_SECOND: "1000000" };
// Not while anything is measured: the first pass of a process looks at every record, and this host lists no instances.
const reconcileIntervalMs = 86_400_000;
const config = { ...readControlPlaneConfig(settings, { dataDir, origin, pathPrefix: "/run" }), reconcileIntervalMs };
const controlPlane = await openControlPlane({ config, host, log: createLogger("warn") });
process.once("disconnect", () => process.exit(0));
process.once("SIGTERM", async () => {
  server.closeAllConnections();
  await controlPlane[Symbol.asyncDispose]();
  process.exit(0);
});
process.send?.({ url: origin, apiKey: controlPlane.bootstrap.apiKey });
