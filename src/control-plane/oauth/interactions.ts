// Signing in and agreeing: two pages of one address that only the browser which began the authorization can open.
import { timingSafeEqual } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Grant, InteractionResults, Provider } from "oidc-provider";
import { oauthPaths, tokenAudience } from "../../contract/oauth.ts";
import { AppError } from "../../core/errors.ts";
import type { SealKey } from "../../core/seal.ts";
import { normalizeEmail, type UserService } from "../users/service.ts";
import { parametersOf, single } from "./bodies.ts";
import type { Bridge, Parameters } from "./bridge.ts";
import { clientAddressOf } from "./client-address.ts";
import { grantScopes, readRequestedScopes } from "./granted-scopes.ts";
import type { KnownBrowsers } from "./known-browsers.ts";
import { consentPage, errorNotice, type Html, html, loginPage, pageHeaders, renderPage } from "./pages.ts";
import { highestRole } from "./provider.ts";

export type InteractionOptions = {
  provider: () => Provider;
  bridge: Bridge;
  /** Where these pages are, for browsers. */
  origin: string;
  sealKey: SealKey;
  users: Pick<UserService, "findById" | "verifyPassword" | "listMemberships">;
  browsers: KnownBrowsers;
  flush: () => Promise<void>;
};

type Details = Awaited<ReturnType<Provider["interactionDetails"]>>;
type Step = { request: FastifyRequest; reply: FastifyReply; details: Details; form: Parameters };

export function mountInteractions(app: FastifyInstance, options: InteractionOptions): void {
  const url = `${oauthPaths.interaction}/:uid`;
  app.get(url, async (request, reply) => {
    const details = await findInteraction(options, request, reply);
    if (details === undefined) return expired(reply);
    return details.prompt.name === "login" ? showLogin(options, reply, details) : showConsent(options, reply, details);
  });
  app.post(url, async (request, reply) => {
    const details = await findInteraction(options, request, reply);
    if (details === undefined) return expired(reply);
    const form = parametersOf(request);
    if (!isOwnForm(options, request, details, form)) {
      return show(reply, 403, "This did not work", html`${errorNotice("The form was not sent from this page.")}`);
    }
    const step = { request, reply, details, form };
    if (single(form, "decision") === "deny") return finish(options, step, denied);
    if (details.prompt.name === "login") return login(options, step);
    if (single(form, "step") !== "consent") return showConsent(options, reply, details);
    if (single(form, "decision") === "switch") return switchAccount(options, step);
    return single(form, "decision") === "allow" ? allow(options, step) : showConsent(options, reply, details);
  });
}

const denied = { error: "access_denied", error_description: "the person did not agree" };

/** Undefined unless the browser has the cookie of this very interaction. */
async function findInteraction(
  { provider, bridge }: InteractionOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Details | undefined> {
  const { uid } = request.params as { uid: string };
  try {
    const details = await provider().interactionDetails(bridge.translate(request), reply.raw);
    return details.uid === uid ? details : undefined;
  } catch (error) {
    if ((error as { error?: unknown }).error === "invalid_request") return undefined;
    throw error;
  }
}

/** The cookie alone would do in today's browsers; the token and the headers stand in where it would not. */
function isOwnForm(
  { origin, sealKey }: InteractionOptions,
  { headers }: FastifyRequest,
  { uid }: Details,
  form: Parameters,
): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin") return false;
  if (headers.origin !== undefined && headers.origin !== origin) return false;
  const given = Buffer.from(single(form, "csrf") ?? "");
  const expected = Buffer.from(csrfToken(sealKey, uid));
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function csrfToken(sealKey: SealKey, uid: string): string {
  return sealKey.fingerprint(`oauth form ${uid}`);
}

async function login(options: InteractionOptions, step: Step): Promise<FastifyReply> {
  const { request, reply, details, form } = step;
  const { users, browsers } = options;
  const email = normalizeEmail(single(form, "email") ?? "");
  const from = { address: clientAddressOf(request), browser: browsers.find(request, email) };
  let user: Awaited<ReturnType<UserService["verifyPassword"]>>;
  try {
    user = await users.verifyPassword(email, single(form, "password") ?? "", from);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "rate_limited") throw error;
    const seconds = Math.ceil(Number(error.details?.retryAfterMs ?? 1_000) / 1_000);
    reply.header("retry-after", String(seconds));
    return showLogin(options, reply, details, { email, error: error.message, status: 429 });
  }
  if (user === undefined) {
    request.audited = { resource: "wrong password" };
    const error = "The e-mail address or the password is wrong.";
    return showLogin(options, reply, details, { email, error, status: 400 });
  }
  if (from.browser === undefined) browsers.remember(reply, email);
  request.audited = { principal_id: user.id, principal_name: user.name, principal_kind: "user" };
  return finish(options, step, { login: { accountId: user.id, amr: ["pwd"] } }, user.id);
}

async function allow(options: InteractionOptions, step: Step): Promise<FastifyReply> {
  const { details } = step;
  const accountId = details.session?.accountId;
  if (accountId === undefined) return finish(options, step, denied);
  const granted = await scopesFor(options, details, accountId);
  if (granted.length === 0) {
    const description = "the person's role allows none of what was asked for";
    return finish(options, step, { error: "invalid_scope", error_description: description });
  }
  const { Grant } = options.provider();
  const grant: Grant = new Grant({ accountId, clientId: String(details.params.client_id) });
  const { missingOIDCScope, missingResourceScopes } = details.prompt.details as {
    missingOIDCScope?: string[];
    missingResourceScopes?: Record<string, string[]>;
  };
  if (missingOIDCScope !== undefined) grant.addOIDCScope(missingOIDCScope.join(" "));
  grant.addResourceScope(tokenAudience, granted.join(" "));
  // What the role does not allow has been decided on too, so that nobody is asked for it again.
  const refused = (missingResourceScopes?.[tokenAudience] ?? []).filter((scope) => !granted.includes(scope));
  if (refused.length > 0) grant.rejectResourceScope(tokenAudience, refused.join(" "));
  return finish(options, step, { consent: { grantId: await grant.save() } });
}

/** `accountId`: whoever else was signed in in this browser no longer is. */
async function finish(
  { provider, bridge, flush }: InteractionOptions,
  { request, reply, details }: Step,
  result: InteractionResults,
  accountId?: string,
): Promise<FastifyReply> {
  const returnTo = await provider().interactionResult(bridge.translate(request), reply.raw, result);
  const before = details.session;
  if (accountId !== undefined && before?.accountId !== undefined && before.accountId !== accountId) {
    await signOut(provider(), before.uid);
  }
  await flush();
  return reply
    .headers(pageHeaders(redirectUriOf(details)))
    .code(303)
    .header("location", returnTo)
    .send();
}

async function switchAccount(options: InteractionOptions, step: Step): Promise<FastifyReply> {
  const { provider, bridge, flush } = options;
  const returnTo = await provider().interactionResult(bridge.translate(step.request), step.reply.raw, {});
  const uid = step.details.session?.uid;
  if (uid !== undefined) await signOut(provider(), uid);
  await flush();
  return step.reply
    .headers(pageHeaders(redirectUriOf(step.details)))
    .code(303)
    .header("location", returnTo)
    .send();
}

async function signOut(provider: Provider, sessionUid: string): Promise<void> {
  const session = await provider.Session.findByUid(sessionUid);
  if (session === undefined) return;
  delete session.accountId;
  delete session.authorizations;
  await session.persist();
}

async function showLogin(
  options: InteractionOptions,
  reply: FastifyReply,
  details: Details,
  { email = "", error, status = 200 }: { email?: string; error?: string; status?: number } = {},
): Promise<FastifyReply> {
  const page = loginPage({
    action: actionOf(details),
    csrf: csrfToken(options.sealKey, details.uid),
    client: await clientNameOf(options, details),
    email: email.slice(0, 320),
    error,
  });
  return show(reply, status, "Sign in", page, redirectUriOf(details));
}

async function showConsent(options: InteractionOptions, reply: FastifyReply, details: Details): Promise<FastifyReply> {
  const accountId = details.session?.accountId;
  const person = accountId === undefined ? undefined : await options.users.findById(accountId);
  if (person === undefined) return expired(reply);
  const redirectUri = redirectUriOf(details);
  const page = consentPage({
    action: actionOf(details),
    csrf: csrfToken(options.sealKey, details.uid),
    client: await clientNameOf(options, details),
    person: person.email ?? person.name,
    scopes: await scopesFor(options, details, person.id),
    destination: redirectUri === undefined ? undefined : destinationOf(redirectUri),
  });
  return show(reply, 200, "Allow access", page, redirectUri);
}

/** What agreeing grants: what was asked for, as far as the person's role allows it. */
async function scopesFor(
  { users }: InteractionOptions,
  { params }: Details,
  accountId: string,
): Promise<readonly string[]> {
  const { api } = readRequestedScopes(typeof params.scope === "string" ? params.scope : undefined);
  return grantScopes(api, await highestRole(users, accountId));
}

function show(reply: FastifyReply, status: number, title: string, content: Html, redirectUri?: string): FastifyReply {
  return reply.code(status).headers(pageHeaders(redirectUri)).send(renderPage(title, content));
}

function expired(reply: FastifyReply): FastifyReply {
  return show(
    reply,
    400,
    "This did not work",
    html`${errorNotice("Signing in took too long or was begun in another browser.")}<p>Close this page and begin again.</p>`,
  );
}

function actionOf({ uid }: Details): string {
  return `/v0${oauthPaths.interaction}/${uid}`;
}

async function clientNameOf({ provider }: InteractionOptions, { params }: Details): Promise<string> {
  const clientId = String(params.client_id);
  return (await provider().Client.find(clientId))?.clientName ?? clientId;
}

function redirectUriOf({ params }: Details): string | undefined {
  return typeof params.redirect_uri === "string" ? params.redirect_uri : undefined;
}

function destinationOf(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri);
  return host === "" ? protocol : host;
}
