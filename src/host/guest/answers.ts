// Requests on a control connection that wait for their answer.
import { AppError } from "../../core/errors.ts";
import { type Deferred, deferWithDeadline } from "./deadline.ts";
import type { Frame } from "./frames.ts";
import { GuestProtocolError } from "./guest-errors.ts";

const answerTimeoutMs = 30_000;
/** Includes those nobody waits for any more, whose answer is still expected. */
const pendingMax = 8_192;

export type Patience = { signal?: AbortSignal; timeoutMs?: number };

export class Answers {
  readonly #pending = new Map<number, { type: number; answer: Deferred<Frame> }>();
  #last = 0;

  /** A number for a request, under which an answer of a type is expected from now on. */
  expect(
    type: number,
    what: string,
    { signal, timeoutMs = answerTimeoutMs }: Patience = {},
  ): { request: number; answer: Promise<Frame> } {
    signal?.throwIfAborted();
    if (this.#pending.size >= pendingMax) {
      throw new AppError("unavailable", "The sandbox's init leaves too many requests unanswered.");
    }
    do this.#last = (this.#last + 1) >>> 0;
    while (this.#pending.has(this.#last));
    const answer = deferWithDeadline<Frame>({ timeoutMs, what, signal });
    this.#pending.set(this.#last, { type, answer });
    return { request: this.#last, answer: answer.promise };
  }

  /** Forgets a request that was not sent. */
  cancel(request: number, error: unknown): void {
    this.#pending.get(request)?.answer.reject(error);
    this.#pending.delete(request);
  }

  receive(frame: Frame): void {
    const pending = this.#pending.get(frame.channel);
    if (pending === undefined || pending.type !== frame.type) throw new GuestProtocolError("an unasked answer");
    this.#pending.delete(frame.channel);
    pending.answer.resolve({ ...frame, payload: Buffer.from(frame.payload) });
  }

  rejectAll(error: unknown): void {
    for (const { answer } of this.#pending.values()) answer.reject(error);
    this.#pending.clear();
  }
}
