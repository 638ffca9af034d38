// The surroundings of programs that handle strangers' bytes as root: no network, no other process, nothing writable but what they
// are given, and no capability beyond what they are given. What they could be tricked into stays in there.
import { lstatSync, readlinkSync } from "node:fs";

export type JailOptions = {
  /** Paths of this machine and where they appear inside. */
  writable: { from: string; to: string }[];
  readable: { from: string; to: string }[];
  capabilities: readonly string[];
  command: readonly string[];
};

/** Arguments for bwrap (bubblewrap). The jail dies with the program that started it. */
export function jailArguments({ writable, readable, capabilities, command }: JailOptions): string[] {
  return [
    "--unshare-net",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--new-session",
    ...["--cap-drop", "ALL"],
    ...capabilities.flatMap((name) => ["--cap-add", name]),
    ...["--ro-bind", "/usr", "/usr"],
    ...["/bin", "/sbin", "/lib", "/lib64"].flatMap(systemDirectory),
    ...["/etc/ssl", "/etc/containers", "/etc/hosts"].flatMap((path) => ["--ro-bind-try", path, path]),
    ...["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"],
    ...readable.flatMap(({ from, to }) => ["--ro-bind", from, to]),
    ...writable.flatMap(({ from, to }) => ["--bind", from, to]),
    "--",
    ...command,
  ];
}

/** The environment inside: fixed, so that nothing of the daemon's (credentials among it) can be read there. */
export const jailEnvironment = { PATH: "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin", HOME: "/tmp", LANG: "C.UTF-8" };

function systemDirectory(path: string): string[] {
  const info = lstatSync(path, { throwIfNoEntry: false });
  if (info === undefined) return [];
  return info.isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path];
}
