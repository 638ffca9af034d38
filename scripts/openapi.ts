// `npm run openapi`: writes the OpenAPI documents of the declared operations to openapi/; a test compares them.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { controlPlaneDocument } from "../src/contract/control-plane-document.ts";

const folder = join(import.meta.dirname, "../openapi");
mkdirSync(folder, { recursive: true });
/** The address of an installation nobody has changed. */
const origin = "http://127.0.0.1:4000";
writeFileSync(join(folder, "control-plane.json"), `${JSON.stringify(controlPlaneDocument(origin), null, 2)}\n`);
