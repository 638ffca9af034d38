// The two ends of a copy: a path of this machine, or `NAME:path` in a sandbox.
import { posix } from "node:path";
import { usageFailure } from "../failure.ts";

export type SandboxLocation = { kind: "sandbox"; sandbox: string; path: string };
export type Location = { kind: "local"; path: string } | SandboxLocation;

/** A colon after something that could be a sandbox's name means a sandbox; `./a:b` is always a local file. */
export function parseLocation(text: string): Location {
  if (text === "") throw usageFailure("A path to copy may not be empty.");
  const match = /^([a-z0-9][a-z0-9-]{0,48}):(.*)$/s.exec(text);
  if (match === null) return { kind: "local", path: text };
  return { kind: "sandbox", sandbox: match[1]!, path: match[2] === "" ? "." : match[2]! };
}

/**
 * A sandbox path as it stands in a URL: an absolute one with its slashes encoded, a relative one with them plain, because
 * that is how the sandbox API tells the two apart.
 */
export function encodeSandboxPath(path: string): string {
  if (path.startsWith("/")) return encodeURIComponent(path);
  const relative = posix.normalize(path);
  if (relative === "." || relative === "./") return "";
  if (relative === ".." || relative.startsWith("../"))
    throw usageFailure(`${path} leads out of the working directory; use an absolute path.`);
  return relative.replace(/\/$/, "").split("/").map(encodeURIComponent).join("/");
}

/** Where a copy ends up: inside an existing directory (or one asked for by a final slash) under its own name, else at the path itself. */
export function targetPath(source: string, target: string, targetIsDirectory: boolean): string {
  if (!targetIsDirectory && !target.endsWith("/")) return target;
  const name = posix.basename(source.replace(/\/+$/, ""));
  // `dir/.` and `/` have no name of their own: their content goes into the target.
  return name === "." || name === "" || name === ".." ? target : posix.join(target, name);
}

/** Whether a name from a sandbox can only mean an entry of the directory it was listed in. */
export function isEntryName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !name.includes("/") && !name.includes("\0");
}
