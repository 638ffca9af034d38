// The headers of a preview's answers: those its owner wants are added, and those with which a program inside could reach beyond its own
// preview are taken out.
import type { ServerResponse } from "node:http";

type Pair = [name: string, value: string];

export type AnswerPolicy = {
  /** What the preview's owner adds; each takes the place of what the program inside sends. */
  added: Readonly<Record<string, string>>;
  /** The preview lives below a path of the platform's own origin. */
  sharesOrigin: boolean;
  /** A browser asks, as far as it says so. */
  isBrowser: boolean;
  /** Of the cookie with the preview's token, which is not for the program inside to set. */
  cookieName: string;
  /** What is set for the platform itself. */
  cookies: string[];
};

/** They act on a whole host or on all hosts of a domain. */
const reachingFar = new Set(["alt-svc", "clear-site-data"]);
/** Where every preview and the platform's own pages have one origin. */
const reachingPlatform = new Set([
  "nel",
  "origin-agent-cluster",
  "report-to",
  "reporting-endpoints",
  "service-worker-allowed",
  "set-cookie",
  "strict-transport-security",
]);

/** What browsers ask a person a password for, in the name of the whole host. */
const passwordChallenge = /\b(?:basic|digest|negotiate|ntlm)\b/i;

/** Pages run in an origin of nobody: their scripts reach neither the platform's pages nor other previews. */
const isolation =
  "sandbox allow-downloads allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-scripts";

/** From here on whatever is answered obeys the policy, as it is then. */
export function guardAnswer(response: ServerResponse, policy: AnswerPolicy): void {
  const writeHead = response.writeHead.bind(response) as (status: number, ...rest: unknown[]) => ServerResponse;
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    const given = typeof rest.at(-1) === "object" ? rest.pop() : undefined;
    const pairs = applyPolicy(collect(response, given), policy);
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    return writeHead(status, ...rest, pairs.flat());
  }) as ServerResponse["writeHead"];
}

/** The same for headers in one flat list. */
export function filterHeaders(headers: readonly string[], policy: AnswerPolicy): string[] {
  return applyPolicy(pairUp(headers), policy).flat();
}

function applyPolicy(pairs: readonly Pair[], policy: AnswerPolicy): Pair[] {
  const { added, sharesOrigin, isBrowser, cookieName, cookies } = policy;
  const replaced = new Set(Object.keys(added).map((name) => name.toLowerCase()));
  const isAllowed = (name: string): boolean => !reachingFar.has(name) && !(sharesOrigin && reachingPlatform.has(name));
  const kept = pairs.flatMap(([name, value]): Pair[] => {
    const lower = name.toLowerCase();
    if (replaced.has(lower) || !isAllowed(lower)) return [];
    if (lower === "www-authenticate" && sharesOrigin && isBrowser && passwordChallenge.test(value)) return [];
    if (lower !== "set-cookie") return [[name, value]];
    const cookie = confineCookie(value, cookieName);
    return cookie === undefined ? [] : [[name, cookie]];
  });
  const own = Object.entries(added).filter(([name]) => isAllowed(name.toLowerCase()));
  const set = cookies.map((cookie): Pair => ["set-cookie", cookie]);
  return [...kept, ...own, ...set, ...(sharesOrigin ? [["content-security-policy", isolation] as Pair] : [])];
}

/** Without its domain a cookie goes to this host alone. Undefined: it has the name of ours. */
function confineCookie(cookie: string, cookieName: string): string | undefined {
  const [pair = "", ...attributes] = cookie.split(";");
  if (pair.split("=", 1)[0]!.trim() === cookieName) return undefined;
  return [pair, ...attributes.filter((attribute) => !/^\s*domain\s*(?:=|$)/i.test(attribute))].join(";");
}

/** What was set one by one, and what `writeHead` was given: a flat list or an object, and the latter wins. */
function collect(response: ServerResponse, given: unknown): Pair[] {
  const pairs = Array.isArray(given) ? pairUp(given) : entriesOf((given ?? {}) as Record<string, unknown>);
  const names = new Set(pairs.map(([name]) => name.toLowerCase()));
  return [...entriesOf(response.getHeaders()).filter(([name]) => !names.has(name.toLowerCase())), ...pairs];
}

function pairUp(list: readonly unknown[]): Pair[] {
  const pairs: Pair[] = [];
  for (let index = 0; index + 1 < list.length; index += 2) pairs.push([String(list[index]), String(list[index + 1])]);
  return pairs;
}

function entriesOf(headers: Readonly<Record<string, unknown>>): Pair[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().flatMap((each): Pair[] => (each === undefined ? [] : [[name, String(each)]])),
  );
}
