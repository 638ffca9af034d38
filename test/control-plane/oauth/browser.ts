// A browser without scripts for tests of signing in: keeps cookies by path, follows redirects, fills in and sends forms.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import type { Server } from "../harness.ts";

export type Page = { status: number; url: string; text: string; headers: Headers };

type Cookie = { name: string; value: string; path: string };

export class Browser {
  readonly cookies: Cookie[] = [];
  readonly #origin: string;

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Follows redirects within the origin; one that leads elsewhere is the page. */
  async open(url: string, init: RequestInit = {}): Promise<Page> {
    let next = new URL(url, this.#origin);
    let request = init;
    for (let hop = 0; hop < 10; hop += 1) {
      const cookie = this.#cookiesFor(next.pathname);
      const response = await fetch(next, {
        ...request,
        redirect: "manual",
        headers: { accept: "text/html", ...(cookie !== "" && { cookie }), ...request.headers },
      });
      for (const line of response.headers.getSetCookie()) this.#store(line);
      const location = response.headers.get("location");
      const text = await response.text();
      if (location === null) return { status: response.status, url: next.href, text, headers: response.headers };
      next = new URL(location, next);
      if (next.origin !== this.#origin) {
        return { status: response.status, url: next.href, text, headers: response.headers };
      }
      request = {};
    }
    return assert.fail("too many redirects");
  }

  /** Sends the page's form with its hidden fields and the given ones. */
  submit(page: Page, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Page> {
    const action = /<form method="post" action="([^"]+)"/.exec(page.text)?.[1];
    assert.ok(action, `there is no form in ${page.text}`);
    const hidden = [...page.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
    const body = new URLSearchParams([
      ...hidden.map(([, name, value]): [string, string] => [name!, value!]),
      ...Object.entries(fields),
    ]);
    return this.open(new URL(action, page.url).href, {
      method: "POST",
      body,
      headers: { origin: this.#origin, "sec-fetch-site": "same-origin", ...headers },
    });
  }

  #cookiesFor(path: string): string {
    return this.cookies
      .filter((cookie) => path === cookie.path || path.startsWith(`${cookie.path.replace(/\/$/, "")}/`))
      .map(({ name, value }) => `${name}=${value}`)
      .join("; ");
  }

  #store(line: string): void {
    const [pair = "", ...attributes] = line.split(";").map((part) => part.trim());
    const name = pair.slice(0, pair.indexOf("="));
    const value = pair.slice(pair.indexOf("=") + 1);
    const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5) ?? "/";
    const index = this.cookies.findIndex((cookie) => cookie.name === name && cookie.path === path);
    if (index >= 0) this.cookies.splice(index, 1);
    if (value !== "") this.cookies.push({ name, value, path });
  }
}

export const password = "correct horse battery";

export async function addPerson(
  { controlPlane }: Server,
  { email = "ada@example.com", role = "admin" as "admin" | "member" } = {},
): Promise<{ id: string; email: string }> {
  const membership = { workspace: "main", role };
  const { id } = await controlPlane.identity.users.add({ email, password, membership });
  return { id, email };
}

export type Pkce = { verifier: string; challenge: string };

export function makePkce(): Pkce {
  const verifier = randomBytes(32).toString("base64url");
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") };
}

export const loopback = "http://127.0.0.1:53123/callback";

export function authorizeUrl(parameters: Record<string, string | undefined>): string {
  const given = {
    client_id: "blaxel",
    response_type: "code",
    redirect_uri: loopback,
    state: "state-1",
    code_challenge_method: "S256",
    ...parameters,
  };
  const present = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `/v0/oauth/authorize?${new URLSearchParams(present)}`;
}

/** Signs in, agrees, and returns the parameters the client's address is opened with. */
export async function authorize(
  browser: Browser,
  email: string,
  parameters: Record<string, string | undefined> = {},
): Promise<URLSearchParams> {
  let page = await browser.open(authorizeUrl(parameters));
  if (page.text.includes('name="password"')) page = await browser.submit(page, { email, password });
  assert.match(page.text, /Allow access/, page.text);
  page = await browser.submit(page, { decision: "allow" });
  const { searchParams, origin, pathname } = new URL(page.url);
  assert.equal(`${origin}${pathname}`, parameters.redirect_uri ?? loopback);
  return searchParams;
}

// biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
export type TokenAnswer = { status: number; body: any; headers: Headers };

export async function requestToken(
  { url }: Server,
  parameters: Record<string, string>,
  { basic, json = false, path = "/v0/oauth/token" }: { basic?: string; json?: boolean; path?: string } = {},
): Promise<TokenAnswer> {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: {
      "content-type": json ? "application/json" : "application/x-www-form-urlencoded",
      ...(basic !== undefined && { authorization: `Basic ${Buffer.from(basic).toString("base64")}` }),
    },
    body: json ? JSON.stringify(parameters) : new URLSearchParams(parameters).toString(),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text), headers: response.headers };
}

/** Signs a person in with the command line's client; the answer of the token endpoint. */
export async function signIn(server: Server, email: string, parameters: Record<string, string> = {}) {
  const { verifier, challenge } = makePkce();
  const answer = await authorize(new Browser(server.url), email, { code_challenge: challenge, ...parameters });
  return requestToken(server, {
    grant_type: "authorization_code",
    client_id: "blaxel",
    code: answer.get("code")!,
    redirect_uri: loopback,
    code_verifier: verifier,
  });
}

export async function addServiceAccount(
  { controlPlane }: Server,
  role: "admin" | "member" = "member",
): Promise<{ clientId: string; secret: string; basic: string }> {
  const caller = { workspaceId: controlPlane.bootstrap.workspaceId, principalName: "admin", scopes: ["admin"] };
  const made = await controlPlane.identity.serviceAccounts.create(caller as never, { name: "robot", role });
  return { clientId: made.client_id, secret: made.client_secret, basic: `${made.client_id}:${made.client_secret}` };
}

export function decodeJwt(token: string): { header: Record<string, unknown>; payload: Record<string, unknown> } {
  const [header, payload] = token
    .split(".")
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));
  return { header, payload };
}
