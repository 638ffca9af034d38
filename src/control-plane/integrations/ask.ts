// Asks a service for its models and puts its failures into words: whose fault it is, what the service said, and never the credential.
import type { ConnectionModel } from "../../contract/integration.ts";
import { AppError } from "../../core/errors.ts";
import { OutgoingError } from "../outgoing/failure.ts";
import { parseForeignJson } from "../outgoing/json.ts";
import type { Outgoing } from "../outgoing/outgoing.ts";
import type { OutgoingAnswer, OutgoingSession } from "../outgoing/session.ts";
import { membersOf } from "./providers/answer.ts";
import { modelsMax, type Provider, UnexpectedAnswer } from "./providers/provider.ts";
import type { Texts } from "./record.ts";
import { carriesSecret, redactMessage } from "./redact.ts";

export type AskOptions = {
  displayName: string;
  models: Provider;
  config: Texts;
  credential: string | undefined;
  outgoing: Outgoing;
};

export async function askProvider(options: AskOptions): Promise<ConnectionModel[]> {
  const { displayName, models, config, credential, outgoing } = options;
  const baseUrl = models.baseUrl(config);
  const headers = models.headers(config, credential);
  try {
    await using session = outgoing.open(baseUrl);
    const found = await models.listModels(async (pathOrUrl) => {
      const url = pathOrUrl.startsWith("/") ? `${baseUrl}${pathOrUrl}` : pathOrUrl;
      if (!URL.canParse(url) || new URL(url).origin !== new URL(baseUrl).origin) {
        throw new UnexpectedAnswer("continues its list at another origin, which is not followed");
      }
      return requireSuccess(await send(session, url, headers), options);
    }, config);
    if (found.length > modelsMax) throw new UnexpectedAnswer(`listed more than ${modelsMax} models`);
    return found.filter((model) => !carriesSecret(JSON.stringify(model), credential));
  } catch (error) {
    if (error instanceof AppError) throw error;
    if (error instanceof OutgoingError && error.reason === "invalid_url") {
      throw new AppError("invalid_request", `spec.config.${models.addressKey} ${error.message}`);
    }
    if (error instanceof OutgoingError || error instanceof UnexpectedAnswer) {
      throw new AppError("upstream_failed", `${displayName} ${error.message}.`, { cause: describeCause(error) });
    }
    throw error;
  }
}

function send(session: OutgoingSession, url: string, headers: Texts): Promise<OutgoingAnswer> {
  return session.send({ method: "GET", url, headers });
}

function requireSuccess({ status, text }: OutgoingAnswer, { displayName, credential }: AskOptions): unknown {
  const answer = parseForeignJson(text);
  if (status >= 200 && status < 300) {
    if (answer === undefined) throw new UnexpectedAnswer("answered with something that is not JSON");
    return answer;
  }
  const said = findReason(answer);
  const reason = said === undefined ? "" : `: ${redactMessage(said, credential)}`;
  throw new AppError("upstream_failed", `${displayName} ${describeStatus(status, answer)}${reason}`, {
    cause: new Error(`status ${status}`),
  });
}

function describeStatus(status: number, answer: unknown): string {
  if (status === 401 || status === 403 || status === 498 || (status === 400 && isAboutKey(answer))) {
    return `refused the credential (${status})`;
  }
  if (status === 429) return "limits how often it may be asked (429)";
  if (status === 404) return "knows no list of models at this address (404)";
  return `failed (${status})`;
}

/** Two services answer a wrong key as a bad request. */
function isAboutKey(answer: unknown): boolean {
  return /api[ _]key/i.test(findReason(answer) ?? "");
}

/** Where the services put what went wrong: `{error: {message}}`, `{error: "..."}`, `{message}` or `{detail}`. */
function findReason(answer: unknown): string | undefined {
  const { error, message, detail } = membersOf(answer);
  const candidates = [membersOf(error).message, error, message, detail, membersOf(message).detail];
  return candidates.find((text): text is string => typeof text === "string" && text !== "");
}

/** What the log is told: no URL and no address that a stranger chose. */
function describeCause(error: Error): Error {
  const { code, name } = (error.cause ?? error) as { code?: unknown; name?: unknown };
  return new Error(typeof code === "string" ? code : String(name));
}
