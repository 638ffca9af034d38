// `npm run openapi`: writes the OpenAPI documents of the declared operations to openapi/; a test compares them.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { controlPlaneDocument } from "../src/contract/control-plane-document.ts";
import { sandboxDocument } from "../src/contract/sandbox-document.ts";

const folder = join(import.meta.dirname, "../openapi");
mkdirSync(folder, { recursive: true });
/** The address of an installation nobody has changed. */
const origin = "http://127.0.0.1:4000";
const documents = { "control-plane.json": controlPlaneDocument(origin), "sandbox.json": sandboxDocument() };
for (const [name, document] of Object.entries(documents)) {
  writeFileSync(join(folder, name), `${JSON.stringify(document, null, 2)}\n`);
}
