// Many sandboxes at once, and the machine's memory around them.
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { SpawnedPlatform } from "../../src/dev/spawn-platform.ts";

export type Sandbox = { metadata: { name: string; url: string }; state?: string };

export async function createSandbox(
  platform: SpawnedPlatform,
  { name, memoryMb = 512 }: { name?: string; memoryMb?: number } = {},
): Promise<Sandbox> {
  const body = { metadata: name === undefined ? {} : { name }, spec: { runtime: { memory: memoryMb } } };
  return (await platform.call("POST", "/v0/sandboxes", body)) as Sandbox;
}

/** Each with a process of its own that waits, as a sandbox in use has. */
export async function createMany(platform: SpawnedPlatform, count: number): Promise<Sandbox[]> {
  const made: Sandbox[] = [];
  for (let index = 0; index < count; index++) {
    const sandbox = await createSandbox(platform, { name: `fleet-${index}` });
    await platform.call("POST", `${pathOf(sandbox)}/process`, { name: "waiter", command: "exec sleep infinity" });
    made.push(sandbox);
  }
  return made;
}

/** Path of a sandbox's API on the platform's own origin. */
export function pathOf(sandbox: Sandbox): string {
  return new URL(sandbox.metadata.url).pathname;
}

export async function waitForStandby(platform: SpawnedPlatform, count: number): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const listed = (await platform.call("GET", "/v0/sandboxes?limit=200")) as unknown as Sandbox[];
    if (listed.filter(({ state }) => state === "STANDBY").length >= count) return;
    if (Date.now() > deadline) throw new Error("the sandboxes did not fall asleep in a minute");
    await delay(200);
  }
}

/** Until no sandbox is left, the ones being deleted included. */
export async function waitForDeletion(platform: SpawnedPlatform): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const listed = (await platform.call(
      "GET",
      "/v0/sandboxes?limit=200&status=DELETING,DEPLOYED",
    )) as unknown as Sandbox[];
    if (listed.length === 0) return;
    if (Date.now() > deadline) throw new Error("the sandboxes were not deleted in a minute");
    await delay(200);
  }
}

/** The kernel's estimate of free memory, after giving back what caches hold. */
export async function availableBytes(): Promise<number> {
  writeFileSync("/proc/sys/vm/drop_caches", "3");
  await delay(500);
  return Number(/MemAvailable:\s+(\d+) kB/.exec(readFileSync("/proc/meminfo", "utf8"))![1]) * 1024;
}
