// Reads `/port/{n}/...`: which port inside the sandbox is meant and what URL its server is asked.
import { AppError } from "../../core/errors.ts";

export type PortTarget = { port: number; path: string };

/** Undefined when the URL is not below `/port/`. The rest is kept byte for byte, but for a token that is the platform's. */
export function parsePortUrl(url: string): PortTarget | undefined {
  if (!/^\/port(?:\/|\?|$)/.test(url)) return undefined;
  const match = /^\/port\/(\d{1,5})(?=[/?]|$)(.*)$/s.exec(url);
  const port = Number(match?.[1] ?? 0);
  if (match === null || port < 1 || port > 65_535) {
    throw new AppError("invalid_request", "The URL must be /port/{number from 1 to 65535}/...");
  }
  const rest = withoutToken(match[2]!);
  return { port, path: rest.startsWith("/") ? rest : `/${rest}` };
}

function withoutToken(rest: string): string {
  const query = rest.indexOf("?");
  if (query === -1 || !rest.includes("bl_preview_token")) return rest;
  const kept = rest
    .slice(query + 1)
    .split("&")
    .filter((pair) => !/^bl_preview_token(?:=|$)/.test(pair));
  return rest.slice(0, query) + (kept.length === 0 ? "" : `?${kept.join("&")}`);
}
