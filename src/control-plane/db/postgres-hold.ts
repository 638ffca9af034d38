// One platform per PostgreSQL database: a lock that the server gives back when its holder's connection ends, however it ends.
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { translateFailure } from "./postgres-errors.ts";
import { connectionOptions, describePlace } from "./postgres-pool.ts";

/** "catnap" as a number; advisory locks are numbers within one database. */
const lockNumber = 109_386_394_493_296;
/** How long a start waits for a predecessor whose end the server has not noticed yet. */
const waitMs = 5_000;
const retryMs = 500;
/** A connection that is cut without a word is found dead after this time and the client's own timeout. */
const checkMs = 5_000;

export type Hold = AsyncDisposable & {
  /** Throws `unavailable` while the lock is lost: another platform may have the database by now. */
  requireHeld(): void;
};

/** Holds the database until disposed; throws `conflict` when another process has it. */
export async function holdDatabase({ url, log }: { url: string; log: Logger }): Promise<Hold> {
  let current: pg.Client | undefined = await acquireWithin(url, waitMs);
  const stop = new AbortController();

  /** Until it has the lock again: the connection may have ended because the server restarts. */
  const regain = async (): Promise<void> => {
    for (let attempt = 0; !stop.signal.aborted; attempt++) {
      await delay(attempt === 0 ? 0 : retryMs, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
      if (stop.signal.aborted) return;
      const client = await acquire(url).catch((error: unknown) => {
        if (attempt % 20 === 0) log.error({ err: error }, "the connection that holds the database is lost");
        return undefined;
      });
      if (client === undefined) continue;
      if (stop.signal.aborted) return void (await endQuietly(client));
      current = client;
      watch(client);
      log.info("the database is held again");
      return;
    }
  };
  const watch = (client: pg.Client): void => {
    const lose = (): void => {
      clearInterval(timer);
      if (current !== client) return;
      current = undefined;
      void endQuietly(client);
      void regain();
    };
    client.on("error", lose).on("end", lose);
    const timer = setInterval(() => void client.query("select 1").catch(lose), checkMs);
    timer.unref();
  };
  watch(current);
  return {
    requireHeld() {
      if (current === undefined) throw new AppError("unavailable", "The connection to the database is being restored.");
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      const client = current;
      current = undefined;
      if (client !== undefined) await endQuietly(client);
    },
  };
}

async function acquireWithin(url: string, timeoutMs: number): Promise<pg.Client> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await acquire(url);
    } catch (error) {
      const isTaken = error instanceof AppError && error.code === "conflict";
      if (!isTaken || Date.now() > deadline) throw error;
    }
    await delay(retryMs / 2);
  }
}

async function acquire(url: string): Promise<pg.Client> {
  const client = new pg.Client({ ...connectionOptions(url), query_timeout: checkMs });
  // A connection that ends before anybody watches it fails the query below.
  client.on("error", () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query("select pg_try_advisory_lock($1) as held", [lockNumber]);
    if (rows[0]?.held === true) return client;
  } catch (error) {
    await endQuietly(client);
    throw translateFailure(error);
  }
  await endQuietly(client);
  throw new AppError(
    "conflict",
    `Another catnap already runs on the database at ${describePlace(url)}; stop it first.`,
  );
}

async function endQuietly(client: pg.Client): Promise<void> {
  await client.end().catch(() => undefined);
}
