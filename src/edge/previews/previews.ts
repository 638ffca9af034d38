// Serves previews: finds the one an address names, checks the token where one is needed, and hands the request to its sandbox without
// anything that is the platform's.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { setExposure } from "../../contract/exposure.ts";
import type { Directory, Host, PreviewRoute } from "../../contract/host.ts";
import { sessionPort } from "../../contract/preview.ts";
import { type PreviewAddress, parsePreviewHost, parsePreviewPath } from "../../contract/preview-address.ts";
import type { Logger } from "../../core/log.ts";
import { timingOf } from "../../core/timing.ts";
import { carriesPlatformCredential } from "../credentials.ts";
import { GatewayError } from "../gateway-error.ts";
import { type Connection, OpenConnections } from "../open-connections.ts";
import { removeHeaders, setHeader } from "../request-headers.ts";
import { type AnswerPolicy, filterHeaders, guardAnswer } from "./answer-headers.ts";
import { cookieNameOf, formatCookie, isBrowser, isNavigation, mayUseCookie, redirect } from "./browser.ts";
import { answerPreflight, isAnsweredHere, isPreflight } from "./preflight.ts";
import { type GivenToken, takeToken } from "./token.ts";

export type PreviewsOptions = {
  directory: Directory;
  host: Pick<Host, "handle" | "upgrade">;
  /** Path below which addresses in path form live, `/run`. */
  pathPrefix: string;
  sandboxDomain: string | undefined;
  /** Callers reach the platform by `https`. */
  isSecure: boolean;
  log: Logger;
  recheckIntervalMs?: number;
};

/** How long an answer or a tunnel outlives its preview or its token. */
const recheckIntervalMs = 2_000;

/** What was asked for, what it is, and the token that opened it: undefined where none is needed. */
type Admission = { address: PreviewAddress; route: PreviewRoute; rest: string; given: GivenToken; token?: string };

export class Previews {
  readonly #options: PreviewsOptions;
  readonly #open: OpenConnections;

  constructor(options: PreviewsOptions) {
    this.#options = options;
    const { log, recheckIntervalMs: intervalMs = recheckIntervalMs } = options;
    this.#open = new OpenConnections({ log, intervalMs });
  }

  /** Whether the Host is one of the previews' domain: then every path is a preview's. */
  owns({ headers }: IncomingMessage): boolean {
    const { sandboxDomain } = this.#options;
    return sandboxDomain !== undefined && parsePreviewHost(headers.host ?? "", sandboxDomain) !== undefined;
  }

  findAddress(request: IncomingMessage): PreviewAddress | undefined {
    const { sandboxDomain, pathPrefix } = this.#options;
    const url = request.url ?? "/";
    const byHost =
      sandboxDomain === undefined ? undefined : parsePreviewHost(request.headers.host ?? "", sandboxDomain);
    return byHost === undefined ? parsePreviewPath(url, pathPrefix) : { ...byHost, mountPath: "", rest: url };
  }

  /** Rejects with a GatewayError when the request may not or cannot go anywhere. */
  async handle(address: PreviewAddress, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { mountPath } = address;
    const settings = { isSecure: this.#options.isSecure, mountPath };
    const route = await this.#find(address);
    const cookieName = cookieNameOf(settings);
    const policy = policyOf(route, mountPath, request, cookieName);
    guardAnswer(response, policy);
    if (isPreflight(request) && isAnsweredHere(route)) return answerPreflight(request, response, route);
    const admission = await this.#admit(address, route, request, cookieName);
    const { token, given, rest } = admission;
    if (isNavigation(request)) {
      const isTokenShown = token !== undefined && given.from === "query";
      if (isTokenShown) policy.cookies.push(formatCookie(request, token, settings));
      // Relative links of a page without the slash would lead out of the preview.
      const lacksSlash = mountPath !== "" && request.url === mountPath;
      if (isTokenShown || lacksSlash) return redirect(request, response, mountPath, rest);
    }
    this.#prepare(request, admission, policy);
    this.#watch(response, admission);
    this.#options.host.handle(route.instanceId, request, response);
  }

  async upgrade(address: PreviewAddress, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { isSecure } = this.#options;
    const route = await this.#find(address);
    const cookieName = cookieNameOf({ isSecure, mountPath: address.mountPath });
    const admission = await this.#admit(address, route, request, cookieName);
    this.#prepare(request, admission, policyOf(route, address.mountPath, request, cookieName));
    this.#watch(socket, admission);
    this.#options.host.upgrade(route.instanceId, request, socket, head);
  }

  async #find({ label }: PreviewAddress): Promise<PreviewRoute> {
    const route = label === undefined ? undefined : await this.#options.directory.findPreview(label);
    if (route === undefined) throw missing();
    return route;
  }

  async #admit(
    address: PreviewAddress,
    route: PreviewRoute,
    request: IncomingMessage,
    cookieName: string,
  ): Promise<Admission> {
    if (!address.rest.startsWith("/")) throw new GatewayError("BAD_REQUEST", "The request's target is not a path.");
    const startedAt = performance.now();
    const { given, rest } = takeToken(request, address.rest, cookieName);
    const token = route.isPublic ? undefined : await this.#requireToken(route, request, given);
    timingOf(request).add("auth", performance.now() - startedAt);
    if (!route.enabled) throw disabled();
    if (route.status !== "DEPLOYED") {
      throw new GatewayError("WORKLOAD_UNAVAILABLE", `The sandbox is ${route.status} and serves no requests.`);
    }
    return { address, route, rest, given, token };
  }

  async #requireToken(route: PreviewRoute, request: IncomingMessage, given: GivenToken): Promise<string> {
    const isUsable = given.from !== undefined && (given.from !== "cookie" || mayUseCookie(request));
    if (!isUsable) throw new GatewayError("PREVIEW_TOKEN_REQUIRED", "The preview is private: it needs a token.");
    for (const candidate of given.candidates) {
      if (await this.#options.directory.verifyPreviewToken(route.previewId, candidate)) return candidate;
    }
    throw invalid();
  }

  /** Makes it the request that the server inside, or the sandbox API, is to see. */
  #prepare(request: IncomingMessage, { address, route, rest, token }: Admission, policy: AnswerPolicy): void {
    const { directory, isSecure } = this.#options;
    const { mountPath } = address;
    const isOurs = route.port === sessionPort || carriesPlatformCredential(request, directory);
    removeHeaders(
      request,
      (name) =>
        name.startsWith("x-blaxel-") ||
        (name === "authorization" && isOurs) ||
        // Cookies of the platform's pages and of other previews: a browser sends them to the whole origin.
        (name === "cookie" && mountPath !== ""),
    );
    // Callers may claim anything here; which address they used is known.
    setHeader(request, "x-forwarded-host", request.headers.host ?? "");
    setHeader(request, "x-forwarded-proto", isSecure ? "https" : "http");
    removeHeaders(request, (name) => name === "x-forwarded-prefix");
    for (const [name, value] of Object.entries(route.requestHeaders)) setHeader(request, name, value);
    const isSession = route.port === sessionPort;
    // Servers inside are still below `/port/{n}` there.
    if (isSession && mountPath !== "") setHeader(request, "x-forwarded-prefix", mountPath);
    const filterAnswer = (headers: string[]): string[] => filterHeaders(headers, policy);
    const pageToken = isSession && policy.sharesOrigin ? token : undefined;
    setExposure(request, { mountPath: isSession ? undefined : mountPath, filterAnswer, pageToken });
    request.url = isSession ? rest : `/port/${route.port}${rest}`;
  }

  #watch(connection: Connection, { address, route, token }: Admission): void {
    const { directory } = this.#options;
    const { previewId, port } = route;
    this.#open.add(connection, async () => {
      const now = await this.#find(address);
      if (now.previewId !== previewId || now.port !== port) throw missing();
      if (!now.enabled) throw disabled();
      if (now.isPublic) return;
      const isOpen = token !== undefined && (await directory.verifyPreviewToken(previewId, token));
      if (!isOpen) throw invalid();
    });
  }
}

function policyOf(
  { responseHeaders: added }: PreviewRoute,
  mountPath: string,
  request: IncomingMessage,
  cookieName: string,
): AnswerPolicy {
  return { added, sharesOrigin: mountPath !== "", isBrowser: isBrowser(request), cookieName, cookies: [] };
}

function missing(): GatewayError {
  return new GatewayError("WORKLOAD_NOT_FOUND", "There is no preview at this address.");
}

function disabled(): GatewayError {
  return new GatewayError("FORBIDDEN", "The sandbox is disabled and accepts no connections.");
}

function invalid(): GatewayError {
  return new GatewayError("PREVIEW_TOKEN_INVALID", "The token does not open this preview, or does not any more.");
}
