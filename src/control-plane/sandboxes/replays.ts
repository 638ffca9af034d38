// Idempotency keys: a request repeated with its key has one effect and one answer, also while the first is under way.
import type { Sandbox } from "../../contract/sandbox.ts";
import { AppError } from "../../core/errors.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Timing } from "../../core/timing.ts";
import type { Caller } from "../auth/caller.ts";
import type { CreationStore, EarlierRequest, KeyedRequest } from "./creation-store.ts";

export const idempotencyKeyMaxLength = 255;

export type ReplaysOptions = {
  sealKey: SealKey;
  creationStore: CreationStore;
  config: { idempotencyTtlMs: number };
};

export type RepeatableRequest = {
  caller: Caller;
  key: string;
  /** What must be the same when the key is sent again. */
  request: unknown;
  timing: Timing;
};

type UnderWay = { fingerprint: string; answer: Promise<Sandbox> };

export class Replays {
  readonly #options: ReplaysOptions;
  readonly #underWay = new Map<string, UnderWay>();

  constructor(options: ReplaysOptions) {
    this.#options = options;
  }

  /** Runs `work` unless the key has an answer, or gets one from a request that is under way. */
  once(
    { caller, key, request, timing }: RepeatableRequest,
    work: (keyed: KeyedRequest) => Promise<Sandbox>,
  ): Promise<Sandbox> {
    const { sealKey, creationStore, config } = this.#options;
    const text = JSON.stringify(sortMembers(request));
    const fingerprint = sealKey.fingerprint(text);
    const requireSame = (earlier: { fingerprint: string }): void => {
      if (!sealKey.matchesFingerprint(earlier.fingerprint, text)) throw keyReused();
    };
    const owner = answerOf(caller, key);
    const underWay = this.#underWay.get(owner);
    if (underWay !== undefined) {
      requireSame(underWay);
      return underWay.answer;
    }
    const answerOnce = async (): Promise<Sandbox> => {
      const earlier = await timing.measure("store", async () =>
        creationStore.findEarlier(caller.workspaceId, caller.principalId, key),
      );
      if (earlier !== undefined) {
        requireSame(earlier);
        return this.#open(earlier, caller, key);
      }
      const expiresAt = new Date(Date.now() + config.idempotencyTtlMs).toISOString();
      return work({ principalId: caller.principalId, key, fingerprint, expiresAt });
    };
    const answer = answerOnce().finally(() => this.#underWay.delete(owner));
    this.#underWay.set(owner, { fingerprint, answer });
    return answer;
  }

  /** Answers hold values of the environment and are stored sealed. */
  seal(answer: Sandbox, caller: Caller, key: string): string {
    return this.#options.sealKey.seal(JSON.stringify(answer), answerOf(caller, key));
  }

  #open({ sealedAnswer }: EarlierRequest, caller: Caller, key: string): Sandbox {
    if (sealedAnswer !== null) return JSON.parse(this.#options.sealKey.open(sealedAnswer, answerOf(caller, key)));
    throw new AppError("conflict", "The first request with this Idempotency-Key has not ended.", {
      details: { reason: "CREATION_IN_PROGRESS" },
    });
  }
}

/** What the answer to a request with a key is bound to. */
export function answerOf(
  { workspaceId, principalId }: Pick<Caller, "workspaceId" | "principalId">,
  key: string,
): string {
  return `answer:${workspaceId}:${principalId}:${key}`;
}

function keyReused(): AppError {
  return new AppError("unprocessable", "The Idempotency-Key was used before with another request.", {
    details: { code: "IDEMPOTENCY_KEY_REUSED" },
  });
}

/** Members in a fixed order, so that a repeated request may write them in another. The value has been read by a schema. */
function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return entries.map(([key, member]) => [key, sortMembers(member)]);
}
