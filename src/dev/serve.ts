// The process of a throw-away platform: `spawn-platform.ts` starts it and talks to it.
import { createLogger, type LogLevel } from "../core/log.ts";
import { startPlatform } from "./platform.ts";

const platform = await startPlatform({
  env: process.env,
  log: createLogger((process.env.CATNAP_LOG_LEVEL as LogLevel | undefined) ?? "warn"),
});
process.on("message", (message) => {
  if (message === "warmed") void platform.warmed().then(() => process.send?.("warmed"));
  if (message === "memory") process.send?.({ rssBytes: process.memoryUsage.rss() });
});
let stopping = false;
const stop = async (): Promise<void> => {
  if (stopping) return;
  stopping = true;
  await platform[Symbol.asyncDispose]();
  process.exit(0);
};
process.once("SIGTERM", () => void stop());
process.once("disconnect", () => void stop());
process.send?.({ url: platform.url, apiKey: platform.firstApiKey });
