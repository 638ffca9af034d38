// Where OAuth 2.0 is spoken (spec section 5) and what its clients may ask for, as data for the server, documents and clients.
import { scopes as apiScopes } from "./scopes.ts";

/** Below `/v0`, which is also the path of the issuer. */
export const oauthPaths = {
  authorization: "/oauth/authorize",
  token: "/oauth/token",
  revocation: "/oauth/revoke",
  introspection: "/oauth/introspect",
  jwks: "/oauth/jwks",
  /** Pages on which a person signs in and agrees. */
  interaction: "/oauth/interaction",
  deviceAuthorization: "/login/device",
  /** Where a person types the code that a device shows. */
  deviceVerification: "/login/device/verify",
  openidConfiguration: "/.well-known/openid-configuration",
  authorizationServer: "/.well-known/oauth-authorization-server",
} as const;

/** Below the origin: RFC 8414 puts the well-known part before the issuer's path. */
export const authorizationServerMetadataPath = "/.well-known/oauth-authorization-server/v0";

/** The public client that command lines sign in with; its redirect URIs are loopback addresses on any port. */
export const firstPartyClientId = "blaxel";

/** Answered by an ID token and a refresh token, and no rights. */
export const protocolScopes: readonly string[] = ["openid", "offline_access"];

/** The same for every flow. */
export const oauthScopes: readonly string[] = apiScopes;

/** What access tokens are for: their audience. */
export const tokenAudience = "urn:catnap:api";

export const deviceCodeGrant = "urn:ietf:params:oauth:grant-type:device_code";
