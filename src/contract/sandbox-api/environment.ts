// The environment of a sandbox's processes.
import { Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const reloadEnvironment = endpoint({
  method: "POST",
  path: "/environment/reload",
  summary: "Read /bl/metadata again; this platform keeps no such file, so the answer is always 404",
  tag: "system",
  scope: "sandboxes:control",
  response: Type.Object({
    generation: Type.Integer(),
    applied: Type.Array(Type.String()),
    removed: Type.Array(Type.String()),
  }),
  errors: [404],
});
