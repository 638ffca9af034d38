// Says of operations that are not offered why, so that a client does not look for its own mistake.
import {
  applyCodeEdit,
  configureTunnel,
  listDriveMounts,
  mountDrive,
  rankFiles,
  removeTunnel,
  unmountDrive,
} from "../../contract/sandbox-api/not-offered.ts";
import { AppError } from "../../core/errors.ts";
import { type App, route } from "../route.ts";

export function registerNotOffered(app: App): void {
  const refuse = (error: () => AppError) => (): never => {
    throw error();
  };
  const tunnel = refuse(
    () => new AppError("unsupported", "WireGuard tunnels are not offered by this platform; use /port/{number}."),
  );
  const drives = refuse(
    () => new AppError("unsupported", "Drives are not offered by this platform; keep files in the sandbox."),
  );
  const codegen = refuse(
    () =>
      new AppError(
        "unavailable",
        "No code generation provider is configured: this needs the setting RELACE_API_KEY or MORPH_API_KEY, which this platform does not read.",
      ),
  );
  for (const declared of [configureTunnel, removeTunnel]) route(app, declared, tunnel);
  for (const declared of [listDriveMounts, mountDrive, unmountDrive]) route(app, declared, drives);
  for (const declared of [applyCodeEdit, rankFiles]) route(app, declared, codegen);
}
