// Permission bits as the API writes them: octal text.
import { AppError } from "../../core/errors.ts";

export const fileModeDefault = 0o644;
export const directoryModeDefault = 0o755;

export function parsePermissions(text: string | undefined, modeDefault: number): number {
  if (text === undefined || text === "") return modeDefault;
  if (!/^(?:0o)?[0-7]{1,5}$/.test(text)) {
    throw new AppError("invalid_request", `permissions must be octal digits such as 0644, not '${text.slice(0, 32)}'`);
  }
  const mode = Number.parseInt(text.replace("0o", ""), 8);
  if (mode > 0o7777) throw new AppError("invalid_request", "permissions must not exceed 7777");
  return mode;
}

export function formatPermissions(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}
