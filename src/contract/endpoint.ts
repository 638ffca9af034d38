// How an HTTP operation is declared: once, as data, read by the server, the command line, the OpenAPI document and the tests.
import type { TSchema } from "typebox";

export type Endpoint = {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below the surface's base, with `:name` parameters, e.g. `/sandboxes/:sandboxName`. */
  path: string;
  summary: string;
  /** The noun it belongs to, under which documents list it, e.g. `sandboxes`. */
  tag: string;
  /** OAuth scope that allows it (spec section 5); of several, all are needed. `admin` covers all. */
  scope: string | readonly string[];
  /** Only administrators of the workspace may, whatever their scopes. */
  role?: "admin";
  /**
   * `none`: about the caller and not about one workspace, so none has to be chosen. `path`: about the one that the parameter
   * `workspaceName` names. Else it is chosen by header or query.
   */
  workspace?: "none" | "path";
  /** `false`: changes nothing although its method says so; the audit log does not tell of it. */
  changes?: false;
  params?: TSchema;
  query?: TSchema;
  /** For documents; handlers read and check headers themselves. */
  headers?: TSchema;
  body?: TSchema;
  response: TSchema;
  /** What the answer's headers mean, by their names. */
  responseHeaders?: Readonly<Record<string, string>>;
  /** Status codes of failures besides those every operation has (400, 401, 403, 404, 413, 415, 429, 500). */
  errors?: readonly number[];
  /** The body of failures, where it is not the surface's usual one. */
  errorBody?: TSchema;
};

/** Keeps the literal types of a declaration. */
export function endpoint<const Declared extends Endpoint>(declared: Declared): Declared {
  return declared;
}
