// API keys, of service accounts and of the person who asks; a key itself is shown when it is made and never again.
import Type, { type Static } from "typebox";
import { endpoint } from "./endpoint.ts";

/** Ten years. */
export const keyLifetimeMaxMs = 3_650 * 86_400_000;

export const ApiKeyInput = Type.Object({
  name: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 63,
      pattern: "^[^\\u0000-\\u001f\\u007f]+$",
      rule: "1 to 63 printable characters",
    }),
  ),
  /** Such as `30d`, `24h` or `1w`; without it the key never expires. */
  expires_in: Type.Optional(Type.String({ maxLength: 16 })),
});
export type ApiKeyInput = Static<typeof ApiKeyInput>;

export const ApiKey = Type.Object({
  id: Type.String(),
  name: Type.String(),
  expires_in: Type.Optional(Type.String()),
  expiresAt: Type.Optional(Type.String()),
  /** To within a few minutes. */
  lastUsedAt: Type.Optional(Type.String()),
  /** Whom it belongs to. */
  sub: Type.String(),
  sub_type: Type.Enum(["user", "service_account"]),
  createdAt: Type.String(),
  updatedAt: Type.String(),
  createdBy: Type.Optional(Type.String()),
  updatedBy: Type.Optional(Type.String()),
});
export type ApiKey = Static<typeof ApiKey>;

export const NewApiKey = Type.Object({ ...ApiKey.properties, apiKey: Type.String() });
export type NewApiKey = Static<typeof NewApiKey>;

const OfAccount = Type.Object({ clientId: Type.String() });
const KeyOfAccount = Type.Object({ clientId: Type.String(), apiKeyId: Type.String() });
const tag = "api keys";

export const listServiceAccountKeys = endpoint({
  method: "GET",
  path: "/service_accounts/:clientId/api_keys",
  summary: "List a service account's API keys",
  tag,
  scope: "apiKey:list",
  params: OfAccount,
  response: Type.Array(ApiKey),
});

export const createServiceAccountKey = endpoint({
  method: "POST",
  path: "/service_accounts/:clientId/api_keys",
  summary: "Make an API key for a service account; it is shown in this answer only",
  tag,
  scope: "apiKey:write",
  role: "admin",
  params: OfAccount,
  body: ApiKeyInput,
  response: NewApiKey,
  errors: [409],
});

export const deleteServiceAccountKey = endpoint({
  method: "DELETE",
  path: "/service_accounts/:clientId/api_keys/:apiKeyId",
  summary: "Revoke an API key of a service account, effective at once",
  tag,
  scope: "apiKey:write",
  role: "admin",
  params: KeyOfAccount,
  response: ApiKey,
});

export const listOwnKeys = endpoint({
  method: "GET",
  path: "/profile/api_keys",
  summary: "List the API keys of the person who asks",
  tag,
  scope: "apiKey:list",
  workspace: "none",
  response: Type.Array(ApiKey),
});

export const createOwnKey = endpoint({
  method: "POST",
  path: "/profile/api_keys",
  summary: "Make an API key for the person who asks; without a named workspace it acts in the present one",
  tag,
  scope: "apiKey:write",
  body: ApiKeyInput,
  response: NewApiKey,
  errors: [409],
});

export const deleteOwnKey = endpoint({
  method: "DELETE",
  path: "/profile/api_keys/:apiKeyId",
  summary: "Revoke an API key of the person who asks, effective at once",
  tag,
  scope: "apiKey:write",
  workspace: "none",
  params: Type.Object({ apiKeyId: Type.String() }),
  response: ApiKey,
});
