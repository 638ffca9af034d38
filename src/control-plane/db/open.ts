// Opens the store that the settings name: a server where they give its URL, a file in the data directory otherwise.
import type { Logger } from "../../core/log.ts";
import type { Database } from "./database.ts";
import { openPostgres } from "./postgres.ts";
import { openSqlite } from "./sqlite.ts";

export type StoreSettings = { databasePath: string; databaseUrl: string | undefined };

/** `isExclusive` refuses a server's database that another process has; a file belongs to whoever locks its data directory. */
export function openDatabase(options: { config: StoreSettings; isExclusive: boolean; log: Logger }): Promise<Database> {
  const { config, isExclusive, log } = options;
  if (config.databaseUrl === undefined) return openSqlite(config.databasePath);
  return openPostgres({ url: config.databaseUrl, isExclusive, log });
}
