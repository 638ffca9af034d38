// Writes many files below a directory: all paths are checked before the first byte is written.
import { AppError } from "../../core/errors.ts";
import type { GuestFiles } from "../machine.ts";
import { fileModeDefault } from "./permissions.ts";

const atOnce = 16;

/** Makes the directory and the parents of each file. Stops at the first file that cannot be written; others may have been by then. */
export async function writeFiles(
  files: GuestFiles,
  directory: string,
  contents: Readonly<Record<string, string>>,
): Promise<void> {
  const targets = Object.entries(contents).map(([path, content]) => ({ path: within(directory, path), content }));
  await files.makeDirectory(directory);
  const queue = targets.values();
  const worker = async (): Promise<void> => {
    for (const { path, content } of queue) await files.write(path, Buffer.from(content), { mode: fileModeDefault });
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, targets.length) }, worker));
}

/** Leading slashes mean the tree itself; a path that leads out of it is refused. */
function within(directory: string, path: string): string {
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  const isInside = segments.length > 0 && !segments.includes("..") && !path.includes("\0") && !path.endsWith("/");
  if (!isInside) {
    throw new AppError("invalid_request", `files has a path that names no file in the tree: '${path.slice(0, 200)}'.`);
  }
  return `${directory === "/" ? "" : directory}/${segments.join("/")}`;
}
