// Watching a directory or a tree for changes, as lines that come until the caller leaves.
import { Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const watchPath = endpoint({
  method: "GET",
  path: "/watch/filesystem/*",
  summary:
    "Watch a directory, or with a path that ends in `/**` a tree: one JSON object a line, and `[keepalive]` when nothing happens",
  tag: "filesystem",
  scope: "sandboxes:control",
  query: Type.Object({
    ignore: Type.Optional(
      Type.String({ maxLength: 4_096, description: "Texts separated by commas; paths that contain one are not told." }),
    ),
  }),
  /** Lines of `{op, name, path, error}`; `op` is CREATE, WRITE, REMOVE, RENAME, CHMOD, or OVERFLOW when changes may be missing. */
  response: Type.String(),
  errors: [422],
});
