// Replacing the init inside a sandbox by another build of it, without disturbing what runs.
import { type Static, Type } from "typebox";
import { endpoint } from "../endpoint.ts";

export const UpgradeRequest = Type.Object({
  version: Type.Optional(
    Type.String({
      pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
      description: "`latest`, the default, is what this platform ships, or what `baseUrl` calls so.",
    }),
  ),
  baseUrl: Type.Optional(
    Type.String({
      maxLength: 1_024,
      description:
        "Where to download it from: {baseUrl}/{version}/catnap-init-linux-{amd64|arm64}, beside it the same with .sha256. Without, nothing is downloaded.",
    }),
  ),
});
export type UpgradeRequest = Static<typeof UpgradeRequest>;

export const upgradeSandbox = endpoint({
  method: "POST",
  path: "/upgrade",
  summary: "Begin to upgrade the sandbox's init in place; how it goes is told by `lastUpgrade` of /health",
  tag: "system",
  scope: "sandboxes:control",
  body: UpgradeRequest,
  response: Type.Object({ message: Type.String(), version: Type.String(), baseUrl: Type.String() }),
  errors: [409, 422],
});
