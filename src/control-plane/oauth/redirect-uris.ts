// Which addresses a client may register to have codes sent to (RFC 8252, RFC 9700): requests must then name one of them exactly.
import { AppError } from "../../core/errors.ts";

const loopbackHosts = ["127.0.0.1", "[::1]", "localhost"];
/** A reversed domain name, so that programs of others do not use it by chance. */
const privateScheme = /^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:$/;

/** Throws `invalid_request` with the rule that is broken. */
export function checkRedirectUri(uri: string, { isPublic }: { isPublic: boolean }): void {
  const refuse = (rule: string): never => {
    throw new AppError("invalid_request", `redirectUris: ${rule}`);
  };
  const url = URL.canParse(uri) ? new URL(uri) : refuse("each must be an absolute URI");
  if (uri.includes("#")) refuse("none may have a fragment");
  if (url.username !== "" || url.password !== "") refuse("none may have a user or password");
  if (/[\s*\\\p{Cc}]/u.test(uri)) refuse("none may have spaces, backslashes or wildcards");
  const isLoopback = loopbackHosts.includes(url.hostname);
  if (url.protocol === "https:") {
    if (isLoopback && isPublic) refuse("a loopback address of a public client is reached with http");
    return;
  }
  if (url.protocol === "http:") {
    if (!isLoopback) refuse("http is for loopback addresses only; use https");
    return;
  }
  if (!isPublic || !privateScheme.test(url.protocol)) {
    refuse("the scheme must be https, http for loopback, or for public clients a private one such as com.example.app");
  }
}
