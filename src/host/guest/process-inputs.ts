// What callers write to processes: in order, in pieces the guest takes as the process reads, each byte at one place only.
import { AppError } from "../../core/errors.ts";
import type { StdinOptions, TerminalSize } from "../../sandbox-api/machine.ts";
import type { Patience } from "./answers.ts";
import type { Frame } from "./frames.ts";
import { errnoError } from "./guest-errors.ts";
import { decodeErrno, decodeTaken, encodeInput, encodeResize } from "./messages.ts";
import { type Ability, frameType } from "./protocol.ts";
import { type SlotLimits, Slots } from "./slots.ts";

const pieceBytes = 64 * 1024;
/** For all of a write, while others to the same process may go before it. */
const writeTimeoutMs = 60_000;
const errno = { noProcess: 3, again: 11 };

const oneAtATime: SlotLimits = {
  slots: 1,
  waitingMax: 256,
  waitMs: writeTimeoutMs,
  refusal: "Too many writes to this process wait for it to read.",
};

export type InputGuest = {
  ask(type: number, encode: (request: number) => Buffer, what: string, patience: Patience): Promise<Frame>;
  require(ability: Ability): void;
  violated(reason: string): void;
};

export class ProcessInputs {
  readonly #guest: InputGuest;
  /** Of the processes somebody writes to at this moment. */
  readonly #turns = new Map<string, { slots: Slots; users: number }>();

  constructor(guest: InputGuest) {
    this.#guest = guest;
  }

  async write(
    token: string,
    bytes: Buffer,
    { offset, last = false, signal }: StdinOptions & { last?: boolean },
  ): Promise<{ taken: number }> {
    this.#guest.require("input");
    if (offset !== undefined && (!Number.isSafeInteger(offset) || offset < 0)) {
      throw new AppError("invalid_request", "The offset must be a whole number from 0 on.");
    }
    const turn = this.#turns.get(token) ?? { slots: new Slots(oneAtATime), users: 0 };
    this.#turns.set(token, turn);
    turn.users++;
    try {
      using _turn = await turn.slots.take(signal);
      return await this.#writeAll(token, bytes, { offset, last, signal });
    } finally {
      if (--turn.users === 0) this.#turns.delete(token);
    }
  }

  async resize(token: string, size: TerminalSize): Promise<void> {
    this.#guest.require("input");
    const encode = (request: number): Buffer => encodeResize(request, token, size);
    const failure = decodeErrno(await this.#guest.ask(frameType.resized, encode, "Resizing a terminal", {}));
    if (failure !== 0) throw inputError("resize", failure);
  }

  async #writeAll(
    token: string,
    bytes: Buffer,
    { offset, last, signal }: StdinOptions & { last: boolean },
  ): Promise<{ taken: number }> {
    const deadlineMs = performance.now() + writeTimeoutMs;
    const patience = (): Patience => ({ signal, timeoutMs: Math.max(1, deadlineMs - performance.now()) });
    const nothing = Buffer.alloc(0);
    // Nothing at the beginning is in nobody's way: the answer says where the end is.
    const begin = offset ?? (await this.#send(token, { at: 0, piece: nothing, last: false }, patience())).taken;
    let taken = begin;
    for (let at = begin; ; ) {
      const piece = bytes.subarray(at - begin, at - begin + pieceBytes);
      const end = at + piece.length;
      const isEnd = end - begin === bytes.length;
      let sent: { isComplete: boolean; taken: number };
      try {
        sent = await this.#send(token, { at, piece, last: last && isEnd }, patience());
      } catch (error) {
        throw error instanceof AppError && error.code === "timeout" ? stalled(taken) : error;
      }
      taken = sent.taken;
      if (sent.isComplete && isEnd) return { taken };
      if (!sent.isComplete && (taken < at || taken >= end)) this.#violated();
      at = sent.isComplete ? end : taken;
    }
  }

  async #send(
    token: string,
    { at, piece, last }: { at: number; piece: Buffer; last: boolean },
    patience: Patience,
  ): Promise<{ isComplete: boolean; taken: number }> {
    const encode = (request: number): Buffer => encodeInput(request, token, at, piece, last);
    const frame = await this.#guest.ask(frameType.taken, encode, "Writing to a process", patience);
    const { errno: failure, taken } = decodeTaken(frame);
    if (failure === 0 && taken < at + piece.length) this.#violated();
    if (failure === 0 || failure === errno.again) return { isComplete: failure === 0, taken };
    throw inputError("write", failure, taken);
  }

  #violated(): never {
    const reason = "it took bytes of a process' input that it was not given";
    this.#guest.violated(reason);
    throw new AppError("upstream_failed", `The sandbox's init gave an answer that makes no sense: ${reason}.`);
  }
}

function inputError(operation: string, failure: number, taken?: number): AppError {
  if (failure === errno.noProcess)
    return new AppError("not_found", "The process has ended.", { details: { errno: "ESRCH" } });
  const error = errnoError("unprocessable", failure, operation, "the process' input");
  return new AppError(error.code, error.message, {
    details: { ...error.details, ...(taken === undefined ? {} : { taken }) },
  });
}

function stalled(taken: number): AppError {
  return new AppError("timeout", "The process does not read its input.", { details: { taken } });
}
