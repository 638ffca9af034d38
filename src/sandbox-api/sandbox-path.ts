// The rules that turn the raw path of a URL, or a path in a body, into an absolute path inside the sandbox.
import { posix } from "node:path";
import { AppError } from "../core/errors.ts";

export type PathBase = { workingDir: string; homeDir: string };

const pathMaxBytes = 4095;

/** An absolute, normalized path: `~` is the home directory, everything else that is relative starts from the working directory. */
export function resolvePath(path: string, { workingDir, homeDir }: PathBase): string {
  if (path.includes("\0")) throw new AppError("invalid_request", "The path contains a NUL byte.");
  const expanded = path === "~" || path.startsWith("~/") ? homeDir + path.slice(1) : path;
  // Two leading slashes mean nothing special on Linux, but normalizing them away keeps one name per file.
  const absolute = posix.resolve(workingDir, expanded).replace(/^\/+/, "/");
  if (Buffer.byteLength(absolute) > pathMaxBytes) {
    throw new AppError("invalid_request", `The path is longer than ${pathMaxBytes} bytes.`);
  }
  return absolute;
}

/**
 * The path that follows `prefix` in a raw URL. With an encoded slash it is absolute; otherwise the slash after the prefix is
 * dropped and the rest is relative, so that `/filesystem//tmp/x` and `/filesystem/%2Ftmp%2Fx` are absolute and
 * `/filesystem/tmp/x` is not. Nothing after the prefix is the working directory.
 */
export function pathFromUrl(url: string, prefix: string, base: PathBase): string {
  const raw = rawRest(url, prefix);
  const decoded = decode(raw);
  const isHome = decoded === "~" || decoded.startsWith("~/");
  if (/%2f/i.test(raw) && !isHome) return resolvePath(`/${decoded}`, base);
  return resolvePath(decoded, base);
}

/** As `pathFromUrl`, but a path without an encoded slash is absolute too. */
export function absolutePathFromUrl(url: string, prefix: string, base: PathBase): string {
  const decoded = decode(rawRest(url, prefix));
  return resolvePath(decoded.startsWith("~") ? decoded : `/${decoded}`, base);
}

function rawRest(url: string, prefix: string): string {
  const query = url.indexOf("?");
  return url.slice(prefix.length + 1, query === -1 ? undefined : query);
}

function decode(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch (error) {
    throw new AppError("invalid_request", "The path in the URL is not valid percent-encoded UTF-8.", { cause: error });
  }
}
