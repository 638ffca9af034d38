// OAuth as the operator manages it: clients that people may sign in to, and the keys that sign access tokens.
import Type, { type Static } from "typebox";
import { endpoint } from "../endpoint.ts";

const clientMembers = {
  name: Type.String({ minLength: 1, maxLength: 100, pattern: "^[^\\u0000-\\u001f<>]+$", rule: "a text of one line" }),
  /** Public: it runs where it can keep no secret, in a browser or on somebody's machine. */
  public: Type.Boolean(),
  redirectUris: Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1, maxItems: 20 }),
};

export const OauthClientInput = Type.Object(clientMembers);
export type OauthClientInput = Static<typeof OauthClientInput>;

export const OauthClient = Type.Object({ clientId: Type.String(), ...clientMembers, createdAt: Type.String() });
export type OauthClient = Static<typeof OauthClient>;

export const NewOauthClient = Type.Object({
  clientId: Type.String(),
  /** Of confidential clients; answered here and never again. */
  clientSecret: Type.Optional(Type.String()),
  ...clientMembers,
  createdAt: Type.String(),
});
export type NewOauthClient = Static<typeof NewOauthClient>;

const clientParams = Type.Object({ clientId: Type.String({ minLength: 1, maxLength: 100 }) });

export const listOauthClients = endpoint({
  method: "GET",
  path: "/oauth/clients",
  summary: "List the programs that people may sign in to",
  tag: "operator",
  scope: "admin",
  response: Type.Array(OauthClient),
});

export const createOauthClient = endpoint({
  method: "POST",
  path: "/oauth/clients",
  summary: "Register a program that people may sign in to",
  tag: "operator",
  scope: "admin",
  body: OauthClientInput,
  response: NewOauthClient,
  errors: [409],
});

export const deleteOauthClient = endpoint({
  method: "DELETE",
  path: "/oauth/clients/:clientId",
  summary: "Remove a program, with all tokens it was given",
  tag: "operator",
  scope: "admin",
  params: clientParams,
  response: OauthClient,
});

export const OauthSigningKey = Type.Object({
  keyId: Type.String(),
  createdAt: Type.String(),
  /** It signs from here on, until a newer one does. */
  activeAt: Type.String(),
  signs: Type.Boolean(),
});
export type OauthSigningKey = Static<typeof OauthSigningKey>;

export const listSigningKeys = endpoint({
  method: "GET",
  path: "/oauth/signing-keys",
  summary: "List the keys that access tokens are verified with",
  tag: "operator",
  scope: "admin",
  response: Type.Array(OauthSigningKey),
});

export const rotateSigningKeys = endpoint({
  method: "POST",
  path: "/oauth/signing-keys/rotate",
  summary: "Sign access tokens with a new key from now on",
  tag: "operator",
  scope: "admin",
  /** `revoke`: tokens signed by older keys are no longer accepted. */
  body: Type.Object({ revoke: Type.Optional(Type.Boolean()) }),
  response: Type.Array(OauthSigningKey),
});
