// The pages of signing in: plain HTML without scripts, everything inserted escaped, sent with headers that forbid framing and foreign content.
import { hash } from "node:crypto";
import type { ErrorOut, KoaContextWithOIDC } from "oidc-provider";

const style = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; padding: 1rem; display: grid; min-height: 90vh; place-items: center; }
main { width: 100%; max-width: 26rem; }
h1 { font-size: 1.4rem; margin: 0 0 1rem; }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600; }
input { box-sizing: border-box; width: 100%; padding: .6rem; font: inherit; border: 1px solid #767676; border-radius: .3rem; }
button { padding: .6rem 1.2rem; font: inherit; border: 1px solid #1f5fbf; border-radius: .3rem; cursor: pointer; margin: 1rem .5rem 0 0; }
button.primary { background: #1f5fbf; color: #fff; }
button.plain { background: none; color: inherit; border-color: #767676; }
:focus-visible { outline: 3px solid #f0a000; outline-offset: 2px; }
.error { border-left: .3rem solid #c22; padding: .3rem .7rem; margin: 0 0 1rem; }
ul { padding-left: 1.2rem; max-height: 12rem; overflow: auto; }
code { font-size: 1.3rem; letter-spacing: .1em; }
`;

const styleHash = `'sha256-${hash("sha256", style, "base64")}'`;

/** HTML that is safe to insert as it is: only `html` makes it. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"'`]/g, (char) => `&#${char.codePointAt(0)};`);
}

/** Escapes every inserted value that is not HTML itself. */
export function html(strings: TemplateStringsArray, ...values: (string | Html | readonly Html[])[]): Html {
  const render = (value: string | Html | readonly Html[]): string => {
    if (value instanceof Html) return value.text;
    return typeof value === "string" ? escapeHtml(value) : value.map(({ text }) => text).join("");
  };
  return new Html(strings.reduce((text, part, index) => text + render(values[index - 1]!) + part));
}

export function renderPage(title: string, content: Html): string {
  return html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title} - catnap</title>
<style>${new Html(style)}</style></head>
<body><main><h1>${title}</h1>${content}</main></body>
</html>
`.text;
}

/** `redirectUri`: where the form's answer leads in the end, which browsers count as its target. */
export function pageHeaders(redirectUri?: string): Record<string, string> {
  const targets = ["'self'", ...(redirectUri === undefined ? [] : [formTarget(redirectUri)])];
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": [
      "default-src 'none'",
      `style-src ${styleHash}`,
      `form-action ${targets.join(" ")}`,
      "base-uri 'none'",
      "frame-ancestors 'none'",
    ].join("; "),
    ...commonHeaders,
  };
}

/** On every answer of the OAuth server. */
export const commonHeaders: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** For answers that are no pages. */
export const closedPolicy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/** A source of a content security policy, whose grammar knows neither IPv6 addresses nor more of private schemes than their name. */
function formTarget(redirectUri: string): string {
  const { protocol, host, hostname } = new URL(redirectUri);
  return /^https?:$/.test(protocol) && !hostname.startsWith("[") ? `${protocol}//${host}` : protocol;
}

export function errorNotice(message: string | undefined): Html {
  return message === undefined ? html`` : html`<p class="error" role="alert">${message}</p>`;
}

export function loginPage(options: {
  action: string;
  csrf: string;
  client: string;
  email: string;
  error?: string;
}): Html {
  const { action, csrf, client, email, error } = options;
  return html`${errorNotice(error)}<p>to go on to <strong>${client}</strong></p>
<form method="post" action="${action}">
<input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="step" value="login">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" required autofocus maxlength="320" value="${email}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required maxlength="256">
<button class="primary" type="submit">Sign in</button>
<button class="plain" type="submit" name="decision" value="deny" formnovalidate>Cancel</button>
</form>`;
}

export function consentPage(options: {
  action: string;
  csrf: string;
  client: string;
  person: string;
  scopes: readonly string[];
  destination: string | undefined;
}): Html {
  const { action, csrf, client, person, scopes, destination } = options;
  const where =
    destination === undefined ? html`` : html`<p>You will then be sent to <strong>${destination}</strong>.</p>`;
  return html`<p>You are signed in as <strong>${person}</strong>. <strong>${client}</strong> asks to act for you with:</p>
<ul>${scopes.map((scope) => html`<li>${scope === "admin" ? "everything you may do" : scope}</li>`)}</ul>${where}
<p>Allow this only if you have just begun it yourself.</p>
<form method="post" action="${action}">
<input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="step" value="consent">
<button class="primary" type="submit" name="decision" value="allow">Allow</button>
<button class="plain" type="submit" name="decision" value="deny">Deny</button>
<button class="plain" type="submit" name="decision" value="switch">Sign in as somebody else</button>
</form>`;
}

/** Sets the answer of a page that the OAuth library asks for. */
export function answerPage(ctx: KoaContextWithOIDC, title: string, content: Html): void {
  ctx.set(pageHeaders());
  ctx.body = renderPage(title, content);
}

/** What went wrong, when there is nowhere to send the browser back to. */
export function renderErrorPage(ctx: KoaContextWithOIDC, { error, error_description: description }: ErrorOut): void {
  answerPage(
    ctx,
    "This did not work",
    html`<p class="error" role="alert">${description ?? error}</p><p>Close this page and begin again. (${error})</p>`,
  );
}
