// How an HTTP operation is declared: once, as data, read by the server, the command line and the tests.
import type { TSchema } from "typebox";

export type Endpoint = {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below the surface's base, with `:name` parameters, e.g. `/sandboxes/:sandboxName`. */
  path: string;
  summary: string;
  /** OAuth scope that allows it (spec section 5); `admin` covers all. */
  scope: string;
  params?: TSchema;
  query?: TSchema;
  body?: TSchema;
  response: TSchema;
};

/** Keeps the literal types of a declaration. */
export function endpoint<const Declared extends Endpoint>(declared: Declared): Declared {
  return declared;
}
