// Pages on which a person types the code that a device shows, and sees what agreeing would mean (RFC 8628).
import type { Configuration, KoaContextWithOIDC } from "oidc-provider";
import { oauthPaths } from "../../contract/oauth.ts";
import { answerPage, errorNotice, type Html, html } from "./pages.ts";

type DeviceFlow = NonNullable<NonNullable<Configuration["features"]>["deviceFlow"]>;

const action = `/v0${oauthPaths.deviceVerification}`;

export function createDevicePages(): Pick<
  DeviceFlow,
  "userCodeInputSource" | "userCodeConfirmSource" | "successSource"
> {
  return {
    userCodeInputSource(ctx, _form, _out, error) {
      // A link may bring the code along; it is only filled in, and confirmed by a person.
      const offered = typeof ctx.query.code === "string" ? ctx.query.code.slice(0, 20) : "";
      const aborted = error?.name === "AbortedError";
      answerPage(ctx, aborted ? "Denied" : "Connect a device", aborted ? denied : inputForm(ctx, offered, error));
    },
    userCodeConfirmSource(ctx, _form, client, _info, userCode) {
      answerPage(ctx, "Connect a device", confirmForm(ctx, client.clientName ?? client.clientId, userCode));
    },
    successSource(ctx) {
      answerPage(ctx, "Connected", html`<p>The device is signed in. You can close this page.</p>`);
    },
  };
}

const denied = html`<p>The device was not signed in. You can close this page.</p>`;

function inputForm(ctx: KoaContextWithOIDC, offered: string, error: Error | undefined): Html {
  const message = error === undefined ? undefined : "This code is not known, was used, or has expired.";
  return html`${errorNotice(message)}<form method="post" action="${action}">
<input type="hidden" name="xsrf" value="${secretOf(ctx)}">
<label for="user_code">Code that the device shows</label>
<input id="user_code" name="user_code" required autofocus autocomplete="off" maxlength="20" value="${offered}">
<button class="primary" type="submit">Continue</button>
</form>`;
}

function confirmForm(ctx: KoaContextWithOIDC, client: string, userCode: string): Html {
  return html`<p><strong>${client}</strong> on another device wants to be signed in as you. It must show this code right now:</p>
<p><code>${userCode}</code></p>
<p>If you did not begin this yourself, or somebody sent you the code, cancel.</p>
<form method="post" action="${action}">
<input type="hidden" name="xsrf" value="${secretOf(ctx)}">
<input type="hidden" name="user_code" value="${userCode}">
<button class="primary" type="submit" name="confirm" value="yes">Continue</button>
<button class="plain" type="submit" name="abort" value="yes">Cancel</button>
</form>`;
}

function secretOf(ctx: KoaContextWithOIDC): string {
  return String((ctx.oidc.session?.state as { secret?: unknown } | undefined)?.secret ?? "");
}
