// Transactions that begin again when the database ends them in favour of another.
import type { Kysely, Transaction } from "kysely";
import { isRepeatable } from "./postgres-errors.ts";
import type { Tables } from "./tables.ts";

const attemptsMax = 5;

/** `work` may run several times: it keeps nothing outside the transaction but what its last run gave. */
export type Transact = <Result>(work: (queries: Transaction<Tables>) => Promise<Result>) => Promise<Result>;

export function createTransact(kysely: Kysely<Tables>): Transact {
  return async (work) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await kysely.transaction().execute(work);
      } catch (error) {
        if (attempt === attemptsMax || !isRepeatable(error)) throw error;
      }
    }
  };
}

/** Resolves once what was committed would survive a loss of power. */
export function makeDurable(transact: Transact, flush: () => Promise<void>): Transact {
  return async (work) => {
    const result = await transact(work);
    await flush();
    return result;
  };
}
