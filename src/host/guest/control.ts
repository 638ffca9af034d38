// The control connection to a guest: commands and their answers, and what its processes say.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { GuestProcess, InitUpgrade, ProcessSink, SpawnRequest } from "../../sandbox-api/machine.ts";
import { Answers, type Patience } from "./answers.ts";
import { type Deferred, deferWithDeadline } from "./deadline.ts";
import type { Receiver } from "./dial.ts";
import type { Frame, FrameReader } from "./frames.ts";
import { errnoError, failedUpgrade, GuestProtocolError, unavailable, upgradeError } from "./guest-errors.ts";
import {
  decodeErrno,
  decodeExit,
  decodeOutput,
  decodeProcess,
  decodeSpawned,
  decodeTaken,
  decodeUpgraded,
  encodeEmpty,
  encodeSignal,
  encodeSpawn,
  encodeUpgrade,
  encodeWindow,
} from "./messages.ts";
import { ProcessFeeds } from "./process-feeds.ts";
import { ProcessInputs } from "./process-inputs.ts";
import { type Ability, binaryBytesMax, frameType, revisionOf, wideWindowBytes } from "./protocol.ts";

const listTimeoutMs = 30_000;
const settleTimeoutMs = 5_000;
const noSuchProcess = 3;
/** Above this much that the init has not read yet, nobody asks it for more. */
const unreadBytesMax = 32 * 1024 * 1024;
/** Acknowledgements are owed whatever waits before them, an upgrade included: an init that leaves these is given up. */
const unreadWithAcksMax = unreadBytesMax + binaryBytesMax + 1024 * 1024;

export type Attachment = {
  sink: ProcessSink;
  onConnected: (processes: readonly GuestProcess[]) => Promise<void>;
};

export type ControlOptions = {
  /** Its hello was answered; `reader` may hold bytes that came after the answer. */
  socket: Socket;
  receiver: Receiver;
  reader: FrameReader;
  /** What the init said it is when it was greeted. */
  revision: number;
  log: Logger;
  onLost: (reason: string) => void;
};

export class ControlConnection {
  readonly inputs: ProcessInputs;
  readonly #options: ControlOptions;
  readonly #answers = new Answers();
  readonly #feeds: ProcessFeeds;
  readonly #spawning = new Map<string, Promise<{ pid: number }>>();
  readonly #stop = new AbortController();
  #revision: number;
  #isAttached = false;
  #listed: Deferred<GuestProcess[]> | undefined;
  #list: GuestProcess[] = [];

  constructor(options: ControlOptions) {
    this.#options = options;
    const { socket, receiver, log } = options;
    this.#revision = options.revision;
    this.#feeds = new ProcessFeeds({
      log,
      stopped: this.#stop.signal,
      send: (frames) => this.#send(frames),
      pause: () => void socket.pause(),
      resume: () => void socket.resume(),
    });
    this.inputs = new ProcessInputs({
      ask: (type, encode, what, patience) => this.#ask(type, encode, what, patience),
      require: (ability) => this.require(ability),
      violated: (reason) => this.fail(`the init broke the protocol: ${reason}`),
    });
    receiver.receive = (piece) => this.#read(piece);
    socket.on("end", () => this.fail("the init closed the control connection"));
    socket.on("error", (error) => this.fail(`the control connection failed: ${error.message}`));
    socket.on("close", () => this.fail("the control connection was closed"));
    socket.resume();
  }

  get isClosed(): boolean {
    return this.#stop.signal.aborted;
  }

  knows(ability: Ability): boolean {
    return this.#revision >= revisionOf[ability];
  }

  /** Throws when the init inside is of an earlier build that cannot do it. */
  require(ability: Ability): void {
    if (this.knows(ability)) return;
    const message = "The sandbox's init is of an earlier version that cannot do this; upgrade or restart the sandbox.";
    throw new AppError("unprocessable", message, { details: { ability } });
  }

  /** A call that is aborted or takes too long may still have started the process: it is signalled or found by its token. */
  async spawn(request: SpawnRequest, signal?: AbortSignal): Promise<{ pid: number }> {
    const known = this.#spawning.get(request.token);
    if (known !== undefined) return known;
    const started = this.#spawn(request, signal);
    this.#spawning.set(request.token, started);
    const forget = (): void => void this.#spawning.delete(request.token);
    started.then(forget, forget);
    return started;
  }

  async signal(token: string, signal: number): Promise<void> {
    if (!Number.isInteger(signal) || signal < 1 || signal > 64) {
      throw new AppError("invalid_request", "A signal is a number from 1 to 64.");
    }
    const encode = (request: number): Buffer => encodeSignal(request, token, signal);
    const errno = decodeErrno(await this.#ask(frameType.signalled, encode, "Signalling a process"));
    if (errno === noSuchProcess) {
      throw new AppError("not_found", "The process has ended.", { details: { errno: "ESRCH" } });
    }
    if (errno !== 0) throw errnoError("unprocessable", errno, "signal", "the process");
  }

  async ping(patience?: Patience): Promise<void> {
    await this.#ask(
      frameType.pong,
      (request) => encodeEmpty(frameType.ping, request),
      "An answer of the init",
      patience,
    );
  }

  /** The new init answers on this same connection: to everything else here nothing happens. */
  async upgrade(binary: Buffer): Promise<InitUpgrade> {
    this.require("upgrade");
    if (binary.length === 0 || binary.length > binaryBytesMax) {
      throw upgradeError("validate", `it has ${binary.length} of at most ${binaryBytesMax} bytes`);
    }
    const encode = (request: number): Buffer => encodeUpgrade(request, binary);
    // However late: an init that was stopped or starved goes on with it, and then is another.
    const frame = await this.#ask(frameType.upgraded, encode, "Upgrading the init", { timeoutMs: Infinity });
    const { step, value, from, to } = decodeUpgraded(frame);
    if (step !== "") throw failedUpgrade(step, value);
    return { from, to };
  }

  /** Asks for everything the guest holds; the sink gets output and ends once `onConnected` has fulfilled. */
  async attach({ sink, onConnected }: Attachment): Promise<void> {
    if (this.#isAttached) throw new AppError("internal", "A guest connection is attached only once.");
    if (this.isClosed) throw unavailable("the connection is closed");
    this.#isAttached = true;
    const { signal } = this.#stop;
    this.#listed = deferWithDeadline({ timeoutMs: listTimeoutMs, what: "Listing the sandbox's processes", signal });
    const { promise } = this.#listed;
    this.#widenWindows();
    this.#options.socket.write(encodeEmpty(frameType.resume, 0));
    try {
      await onConnected(await promise);
    } catch (error) {
      this.close("its processes could not be taken over");
      throw error;
    }
    this.#feeds.open(sink);
  }

  /** Closes the connection because the guest is gone or not to be believed. */
  fail(reason: string): void {
    if (this.isClosed) return;
    this.close(reason);
    this.#options.onLost(reason);
  }

  close(reason: string): void {
    if (this.isClosed) return;
    this.#stop.abort(unavailable(reason));
    this.#options.socket.destroy();
    this.#answers.rejectAll(unavailable(reason));
    this.#feeds.close();
  }

  /** Waits, within bounds, for what was delivered before the connection was closed. */
  async settled(): Promise<void> {
    const deadline = new AbortController();
    const patience = sleep(settleTimeoutMs, undefined, { signal: deadline.signal }).catch(() => undefined);
    await Promise.race([this.#feeds.settled(), patience]);
    deadline.abort();
  }

  /** An init that has just taken over knows no agreement of its predecessor. */
  #widenWindows(): void {
    if (this.#revision < revisionOf.wideWindow || this.isClosed) return;
    this.#feeds.allowWindow(wideWindowBytes);
    this.#options.socket.write(encodeWindow(wideWindowBytes));
  }

  #send(frames: Buffer): void {
    const { socket } = this.#options;
    if (socket.writableLength > unreadWithAcksMax) this.fail("the init does not read what it is sent");
    if (!this.isClosed) socket.write(frames);
  }

  async #spawn(request: SpawnRequest, signal?: AbortSignal): Promise<{ pid: number }> {
    if (request.stdin !== undefined || request.terminal !== undefined) this.require("input");
    const encode = (number: number): Buffer => encodeSpawn(number, request);
    const frame = await this.#ask(frameType.spawned, encode, "Starting the process", { signal });
    const { errno, step, pid } = decodeSpawned(frame);
    if (errno === 0) return { pid };
    const subject = step === "chdir" ? request.workingDir : (request.argv[0] ?? "");
    const { message, details } = errnoError("unprocessable", errno, step || "exec", subject);
    throw new AppError("unprocessable", message, { details: step === "fork" ? { ...details, step } : details });
  }

  async #ask(type: number, encode: (request: number) => Buffer, what: string, patience?: Patience): Promise<Frame> {
    const { socket } = this.#options;
    if (this.isClosed) throw unavailable("the connection is closed");
    if (socket.writableLength > unreadBytesMax) throw unavailable("it does not read what it is sent");
    const { request, answer } = this.#answers.expect(type, what, patience);
    try {
      socket.write(encode(request));
    } catch (error) {
      this.#answers.cancel(request, error);
    }
    return answer;
  }

  #read(piece: Buffer): void {
    if (this.isClosed) return;
    const { reader, log } = this.#options;
    try {
      reader.push(piece);
      for (let frame = reader.next(); frame !== undefined; frame = reader.next()) this.#handle(frame);
    } catch (error) {
      if (!(error instanceof GuestProtocolError)) throw error;
      log.warn({ err: error }, "a guest broke the protocol; its connection is closed");
      this.fail(`the init broke the protocol: ${error.message}`);
    }
  }

  #handle(frame: Frame): void {
    switch (frame.type) {
      case frameType.process:
        return this.#onProcess(frame);
      case frameType.listed:
        return this.#onListed(frame);
      case frameType.output: {
        const feed = this.#speaking(frame);
        return this.#feeds.arrived(feed, feed.receive(decodeOutput(frame), this.#feeds.windowBytes));
      }
      case frameType.exit: {
        const feed = this.#speaking(frame);
        feed.end(decodeExit(frame));
        return this.#feeds.arrived(feed, 0);
      }
      default:
        return this.#onAnswer(frame);
    }
  }

  #onProcess(frame: Frame): void {
    const { acked, ...process } = decodeProcess(frame);
    const { token, pid } = process;
    if (!this.#isAttached) throw new GuestProtocolError("a process nobody asked for");
    this.#feeds.add({ token, channel: frame.channel, pid }, acked);
    if (this.#listed !== undefined) this.#list.push(process);
  }

  #onListed(frame: Frame): void {
    if (this.#listed === undefined || frame.payload.length > 0) throw new GuestProtocolError("an unasked list");
    const tokens = new Set(this.#list.map(({ token }) => token));
    if (tokens.size !== this.#list.length) throw new GuestProtocolError("a token is listed twice");
    this.#listed.resolve(this.#list);
    this.#listed = undefined;
    this.#list = [];
  }

  #speaking(frame: Frame): ReturnType<ProcessFeeds["get"]> {
    if (this.#listed !== undefined) throw new GuestProtocolError("a process speaks before the list is complete");
    return this.#feeds.get(frame.channel);
  }

  /** Decoded here, where a violation still ends the connection: whoever asked may have given up. */
  #onAnswer(frame: Frame): void {
    if (frame.type === frameType.spawned) decodeSpawned(frame);
    else if (frame.type === frameType.signalled || frame.type === frameType.resized) decodeErrno(frame);
    else if (frame.type === frameType.taken) decodeTaken(frame);
    else if (frame.type === frameType.upgraded) return this.#onUpgraded(frame);
    else if (frame.payload.length > 0) throw new GuestProtocolError("a frame is too long for its type");
    this.#answers.receive(frame);
  }

  /** What comes after it on the connection is the new init's. */
  #onUpgraded(frame: Frame): void {
    const { step, revision } = decodeUpgraded(frame);
    this.#answers.receive(frame);
    if (step !== "") return;
    this.#revision = revision;
    this.#widenWindows();
  }
}
