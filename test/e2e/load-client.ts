// The official client, unchanged, as a process has it that was told where a platform is and nothing else.
import type { SpawnedPlatform } from "../../src/dev/spawn-platform.ts";

export type Client = typeof import("@blaxel/core");
export type ClientSandbox = Awaited<ReturnType<Client["SandboxInstance"]["create"]>>;

/** Once in a process: the client reads its settings when it is loaded. */
export async function loadClient({ url, apiKey }: Pick<SpawnedPlatform, "url" | "apiKey">): Promise<Client> {
  Object.assign(process.env, {
    BL_API_URL: `${url}/v0`,
    BL_RUN_URL: `${url}/run`,
    BL_API_KEY: apiKey,
    BL_WORKSPACE: "main",
    BL_REGION: "local",
    BL_DISABLE_H2: "1",
    DO_NOT_TRACK: "1",
  });
  return import("@blaxel/core");
}
