// A control plane in a process of its own, to be killed at any moment. Its host keeps instances as files, so that they outlive it.
// Usage: node crash-child.ts DATA_DIR MODE, where MODE is `work`, `hang` for a host that never finishes a creation, or `hang-rebuild` for
// one that finishes the first only.
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { InstanceRequest } from "../../src/contract/host.ts";
import { writeFileAtomic } from "../../src/core/atomic-file.ts";
import { createFakeHost, type FakeHost } from "./fake-host.ts";
import { startServer } from "./harness.ts";

/** A host whose instances are the files of a directory. */
export function createFileHost(dir: string): FakeHost {
  mkdirSync(dir, { recursive: true });
  const host = createFakeHost();
  for (const half of readdirSync(dir).filter((name) => name.endsWith(".new"))) rmSync(join(dir, half));
  for (const instanceId of readdirSync(dir)) {
    host.instances.set(instanceId, JSON.parse(readFileSync(join(dir, instanceId), "utf8")) as InstanceRequest);
  }
  host.onCreate = async (request) => {
    await delay(Math.random() * 4);
    writeFileAtomic(join(dir, request.instanceId), JSON.stringify(request));
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
  if (mode.startsWith("hang")) {
    const create = host.onCreate;
    host.onCreate = async (request, signal) => {
      await create(request, signal);
      if (mode === "hang-rebuild" && host.requests.length === 1) return;
      console.log(JSON.stringify({ hanging: request.instanceId }));
      await new Promise(() => undefined);
    };
  }
  const server = await startServer({ dataDir, host, ...(apiKey !== undefined && { apiKey }) });
  console.log(JSON.stringify({ url: server.url, apiKey: server.apiKey }));
}
