// A control plane in a process of its own, to be killed at any moment. Its host keeps instances as files, so that they outlive it.
// Usage: node crash-child.ts DATA_DIR MODE, where MODE is `work`, or `hang` for a host that never finishes a creation.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createFakeHost, type FakeHost } from "./fake-host.ts";
import { startServer } from "./harness.ts";

/** A host whose instances are the files of a directory. */
export function createFileHost(dir: string): FakeHost {
  mkdirSync(dir, { recursive: true });
  const host = createFakeHost();
  for (const instanceId of readdirSync(dir)) {
    host.instances.set(instanceId, {
      instanceId,
      workspace: "main",
      sandboxName: "unknown",
      image: "blaxel/base-image:latest",
      memoryMb: 128,
      environment: {},
    });
  }
  host.onCreate = async ({ instanceId }) => {
    await delay(Math.random() * 4);
    writeFileSync(join(dir, instanceId), "");
    await delay(Math.random() * 4);
  };
  host.onDelete = async (instanceId) => {
    await delay(Math.random() * 4);
    rmSync(join(dir, instanceId), { force: true });
  };
  return host;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , dataDir = "", mode = "work", apiKey] = process.argv;
  const host = createFileHost(join(dataDir, "instances"));
  if (mode === "hang") {
    const create = host.onCreate;
    host.onCreate = async (request, signal) => {
      await create(request, signal);
      console.log(JSON.stringify({ hanging: request.instanceId }));
      await new Promise(() => undefined);
    };
  }
  const server = await startServer({ dataDir, host, ...(apiKey !== undefined && { apiKey }) });
  console.log(JSON.stringify({ url: server.url, apiKey: server.apiKey }));
}
