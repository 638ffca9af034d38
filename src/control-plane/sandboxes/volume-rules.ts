// Rules for the volumes of a sandbox (spec 2.9): where they may be mounted, and what each kind needs.
import { posix } from "node:path";
import type { VolumeAttachment } from "../../contract/sandbox-spec.ts";
import { isName } from "../../core/names.ts";
import { refuse, requireDifferent } from "./refuse.ts";

/** Mounting over these would take away what a sandbox is made of. */
const systemPaths = ["/proc", "/sys", "/dev"];

export function requireVolumes(volumes: readonly VolumeAttachment[]): void {
  for (const [index, { name, mountPath, type, sizeMb }] of volumes.entries()) {
    const field = `spec.volumes[${index}]`;
    if (name === undefined) refuse(`${field}.name`, "is required");
    if (!isName(name)) refuse(`${field}.name`, "must be at most 49 lowercase letters, digits and inner hyphens");
    if (mountPath === undefined) refuse(`${field}.mountPath`, "is required");
    requireMountPath(`${field}.mountPath`, mountPath);
    if (type === "ephemeral" && sizeMb === undefined) refuse(`${field}.sizeMb`, "is required for an ephemeral volume");
  }
  requireDifferent(
    volumes.map(({ name }) => name),
    (index) => `spec.volumes[${index}].name`,
  );
  requireDifferent(
    volumes.map(({ mountPath }) => mountPath),
    (index) => `spec.volumes[${index}].mountPath`,
  );
}

function requireMountPath(field: string, path: string): void {
  if (!path.startsWith("/")) refuse(field, "must be absolute");
  if (path.includes("\0") || (path !== "/" && posix.normalize(path) !== path) || (path !== "/" && path.endsWith("/"))) {
    refuse(field, "must be a normal path, without empty, . and .. parts and without a slash at the end");
  }
  if (path === "/" || systemPaths.some((system) => path === system || path.startsWith(`${system}/`))) {
    refuse(field, `must not be / or below ${systemPaths.join(", ")}`);
  }
}
