// The OpenAPI document of the control plane.
import Type from "typebox";
import { ErrorBody } from "./error.ts";
import { oauthPaths, oauthScopes } from "./oauth.ts";
import { buildOpenApi, type Document } from "./openapi.ts";
import { controlPlaneOperations } from "./operations.ts";
import { apiVersions, bareListVersion } from "./page.ts";

const tags: Readonly<Record<string, string>> = {
  "api keys": "Long-lived credentials of people and service accounts.",
  "audit log": "Who changed what in a workspace, and who was refused.",
  features: "What the operator has turned on for the workspace.",
  images: "What sandboxes can be made from.",
  integrations: "Credentials and settings for services outside, and the models these offer.",
  locations: "Where this installation runs.",
  policies: "Where sandboxes of the workspace may be created.",
  previews: "Addresses at which one port of a sandbox, or its API, is reached without a key, and the tokens for them.",
  quotas: "How much of everything a workspace may have.",
  sandboxes: "Isolated machines that fall asleep when idle and wake on the next request.",
  "service accounts": "Programs that act in a workspace.",
  users: "The people of a workspace, their roles and invitations.",
  "volume templates": "File systems that volumes begin with, uploaded as archives; each archive is a version.",
  workspaces: "The tenants: everything else belongs to one.",
};

const headers = Type.Object({
  "X-Blaxel-Workspace": Type.Optional(
    Type.String({ description: "The workspace that is meant; without it the credential's own." }),
  ),
  "Blaxel-Version": Type.Optional(
    Type.Enum([...apiVersions], {
      description: `The version of the interface. ${bareListVersion}, which is meant without it, lists as arrays; later ones in pages.`,
    }),
  ),
});

const description = `Manages the resources of a workspace. Send a credential as \`Authorization: Bearer <API key or access token>\`
(\`X-Blaxel-Authorization\` is read as well). Members that are read-only or unknown are ignored, so whole resources may be sent back.`;

/** `origin` is where the installation is reached, e.g. `http://127.0.0.1:4000`. */
export function controlPlaneDocument(origin: string): Document {
  return buildOpenApi({
    title: "catnap control plane",
    description,
    server: { url: `${origin}/v0`, description: "This installation" },
    operations: controlPlaneOperations,
    headers,
    errorBody: ErrorBody,
    tags,
    oauth: {
      authorizationUrl: `${origin}/v0${oauthPaths.authorization}`,
      tokenUrl: `${origin}/v0${oauthPaths.token}`,
      scopes: oauthScopes,
    },
  });
}
