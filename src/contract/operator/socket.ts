// Where the operator of a machine reaches its platform: a unix socket that nobody else can open, and the operations below it.
import { join } from "node:path";

/** Only the platform's own user may enter it, so the socket in it is out of everyone else's reach from its first moment on. */
export function operatorDir(dataDir: string): string {
  return join(dataDir, "operator");
}

export const operatorSocketName = "operator.sock";

/** The same for every operator surface: operations are declared below it. */
export const operatorBasePath = "/v0";
