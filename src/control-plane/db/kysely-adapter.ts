// What Kysely's SQLite driver needs, on the binding built into Node; statements are prepared once per text.
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import type { SqliteDatabase } from "kysely";
import { BoundedMap } from "../../core/bounded-map.ts";
import { translateFailure } from "./sqlite-errors.ts";

const preparedMax = 200;

type Prepared = { statement: StatementSync; returnsRows: boolean; changes: boolean };

/** `onChange` is called after each statement that may have changed something, `commit` included. */
export function adaptForKysely(database: DatabaseSync, onChange: () => void): SqliteDatabase {
  const known = new BoundedMap<string, Prepared>(preparedMax);
  const prepare = (text: string): Prepared => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const statement = database.prepare(text);
    const made = { statement, returnsRows: statement.columns().length > 0, changes: !/^\s*select\b/i.test(text) };
    known.set(text, made);
    return made;
  };
  return {
    close: () => database.close(),
    prepare(text) {
      const { statement, returnsRows, changes } = prepare(text);
      const watched = <Result>(execute: (values: SQLInputValue[]) => Result) => {
        return (values: readonly unknown[]): Result => {
          try {
            return execute(values as SQLInputValue[]);
          } catch (error) {
            throw translateFailure(error);
          } finally {
            if (changes) onChange();
          }
        };
      };
      return {
        reader: returnsRows,
        all: watched((values) => statement.all(...values)),
        run: watched((values) => {
          // SQLite ends the transaction by itself when the disk is full; an error about that would hide why.
          if (/^\s*rollback\s*$/i.test(text) && !database.isTransaction) return { changes: 0, lastInsertRowid: 0 };
          return statement.run(...values);
        }),
        iterate: watched((values) => statement.iterate(...values) as IterableIterator<unknown>),
      };
    },
  };
}
