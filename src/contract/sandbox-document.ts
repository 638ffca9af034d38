// The OpenAPI document of the API every sandbox has at its address.
import Type from "typebox";
import { buildOpenApi, type Document } from "./openapi.ts";
import { sandboxOperations } from "./operations.ts";

const tags: Readonly<Record<string, string>> = {
  filesystem: "Files, directories and trees; searching and watching them.",
  "filesystem-multipart": "Large files in parts, in any order and at once, published as one.",
  process: "Programs, their output and their ends.",
  network: "Ports and sockets.",
  drives: "Not offered.",
  codegen: "Not offered.",
  terminal: "A shell in a browser.",
  mcp: "Processes and files as tools of the Model Context Protocol.",
  health: "Versions, and how the sandbox is.",
  system: "The sandbox itself.",
};

const description = `What can be done inside a sandbox. Send a credential as \`Authorization: Bearer <API key or access token>\`
(\`X-Blaxel-Authorization\` is read as well). A path follows its prefix raw: with \`%2F\` or a second slash it is absolute, otherwise
relative to the working directory; \`~\` is the home directory. Every GET answers HEAD. Failures are \`{error}\`.`;

export function sandboxDocument(): Document {
  return buildOpenApi({
    title: "catnap sandbox API",
    description,
    // Relative to where the document is read from, which is the sandbox's own address.
    server: { url: ".", description: "This sandbox" },
    operations: sandboxOperations,
    errorBody: Type.Object({ error: Type.String() }, { title: "Error" }),
    tags,
  });
}
