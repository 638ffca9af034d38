// The client credentials grant for service accounts. Clients of the service insist on a refresh token here too: it is a real one.
import { errors, type Provider, type TokenEndpointGrantContext } from "oidc-provider";
import { tokenAudience } from "../../contract/oauth.ts";
import { TokenBuckets } from "../../core/token-buckets.ts";
import type { ServiceAccountService } from "../service-accounts/service.ts";
import { grantScopes, invalidScope, readRequestedScopes } from "./granted-scopes.ts";
import type { ResourceServerOf } from "./provider.ts";

/** Each login leaves a grant and a refresh token behind for a day: this bounds how many. */
const loginsPerClient = { perSecond: 2, burst: 300 };

export function createClientCredentialsGrant(options: {
  provider: Provider;
  serviceAccounts: Pick<ServiceAccountService, "findClient">;
  resourceServer: ResourceServerOf;
}): (ctx: TokenEndpointGrantContext) => Promise<void> {
  const { provider, serviceAccounts, resourceServer } = options;
  const logins = new TokenBuckets(loginsPerClient);
  return async (ctx) => {
    const { client, params } = ctx.oidc;
    const account = await serviceAccounts.findClient(client.clientId);
    if (account === undefined) throw new errors.InvalidClientAuth("client not found");
    const server = resourceServer(params.resource === undefined ? tokenAudience : String(params.resource));
    const requested = readRequestedScopes(params.scope as string | undefined);
    const scope = grantScopes(requested.api, account.role).join(" ");
    if (scope === "") throw invalidScope("the role of the service account allows none of it");
    if (logins.take(client.clientId) > 0) {
      throw new errors.TemporarilyUnavailable("too many logins of this client: use its token until it expires");
    }
    const grant = new provider.Grant({ accountId: account.id, clientId: client.clientId });
    grant.addResourceScope(tokenAudience, scope);
    const issued = { accountId: account.id, client, grantId: await grant.save(), gty: "client_credentials", scope };
    const token = new provider.AccessToken(issued);
    token.resourceServer = new provider.ResourceServer(tokenAudience, server);
    const refreshToken = new provider.RefreshToken({ ...issued, resource: tokenAudience, rotations: 0 });
    ctx.body = {
      access_token: await token.save(),
      expires_in: token.expiration,
      refresh_token: await refreshToken.save(),
      scope,
      token_type: token.tokenType,
    };
  };
}
