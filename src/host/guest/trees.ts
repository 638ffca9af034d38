// Walks, watches and sockets inside a sandbox: each is one connection to a worker of the guest.
import { AppError } from "../../core/errors.ts";
import type { Change, FoundEntry, GuestTrees, SocketInfo, WalkOptions } from "../../sandbox-api/machine.ts";
import { dial } from "./dial.ts";
import type { Frame } from "./frames.ts";
import { fileError, GuestProtocolError } from "./guest-errors.ts";
import { decodeFailed } from "./messages.ts";
import { connectionKind, frameType } from "./protocol.ts";
import { type SlotLimits, Slots } from "./slots.ts";
import { decodeChanges, decodeFound, decodeSockets, encodeSockets, encodeWalk, encodeWatch } from "./tree-messages.ts";
import { unintelligible, WorkerLink } from "./worker-link.ts";

/** How long an answer is waited for: the next frame of a walk, the whole list of sockets. */
const answerTimeoutMs = 30_000;
/** How long the frames of a walk are waited for, taken together. */
const walkTimeoutMs = 300_000;
/** How often a walk may say nothing but that it goes on: more than once a second for as long as it may take. */
const silentFramesMax = 1_000;
/** More than a sandbox can have. */
const socketsMax = 10_000;
/** Together with those for files fewer than the guest's limit on workers. */
const walkSlots: SlotLimits = {
  slots: 8,
  waitingMax: 256,
  waitMs: 30_000,
  refusal: "Too many searches are under way in this sandbox.",
};
const watchSlots: SlotLimits = {
  slots: 20,
  waitingMax: 0,
  waitMs: 1,
  refusal: "Too many directories of this sandbox are watched at once.",
};

type TreesPatience = { answerTimeoutMs: number; walkTimeoutMs: number };

export type TreesOptions = {
  socketPath: string;
  onViolation: (error: GuestProtocolError) => void;
  patience?: TreesPatience;
};

export class ConnectedTrees implements GuestTrees {
  readonly #socketPath: string;
  readonly #onViolation: (error: GuestProtocolError) => void;
  readonly #patience: TreesPatience;
  readonly #walks = new Slots(walkSlots);
  readonly #watches = new Slots(watchSlots);

  constructor({ socketPath, onViolation, patience }: TreesOptions) {
    this.#socketPath = socketPath;
    this.#onViolation = onViolation;
    this.#patience = patience ?? { answerTimeoutMs, walkTimeoutMs };
  }

  async *walk(path: string, options: WalkOptions, signal?: AbortSignal): AsyncGenerator<FoundEntry[]> {
    const request = encodeWalk(path, options);
    using _slot = await this.#walks.take(signal);
    using link = this.#open(request);
    let count = 0;
    let silentFrames = 0;
    let leftMs = this.#patience.walkTimeoutMs;
    for (;;) {
      const found = await this.#guarded(async () => {
        const askedMs = performance.now();
        const timeoutMs = Math.min(this.#patience.answerTimeoutMs, Math.max(1, leftMs));
        const frame = await this.#next(link, path, { what: "Walking a tree", timeoutMs, signal });
        leftMs -= performance.now() - askedMs;
        if (frame.type === frameType.done) return undefined;
        if (frame.type !== frameType.found) throw new GuestProtocolError("a walk has a frame that is no part of it");
        return decodeFound(frame);
      });
      if (found === undefined) return;
      count += found.length;
      if (count > options.entriesMax)
        throw this.#violated(new GuestProtocolError("a walk finds more than was allowed"));
      if (found.length > 0) yield found;
      else if (++silentFrames > silentFramesMax)
        throw this.#violated(new GuestProtocolError("a walk says too often that it goes on"));
    }
  }

  async watch(
    path: string,
    { recursive, signal }: { recursive: boolean; signal: AbortSignal },
  ): Promise<AsyncIterable<Change[]>> {
    const request = encodeWatch(path, recursive);
    const slot = await this.#watches.take(signal);
    const link = this.#open(request);
    try {
      await this.#guarded(async () => {
        const frame = await this.#next(link, path, { what: "Beginning to watch", timeoutMs: answerTimeoutMs, signal });
        if (frame.type !== frameType.done) throw new GuestProtocolError("a watch begins with another frame");
      });
    } catch (error) {
      slot[Symbol.dispose]();
      link[Symbol.dispose]();
      throw error;
    }
    // A caller that never reads must give its place back, too.
    const release = (): void => {
      signal.removeEventListener("abort", release);
      slot[Symbol.dispose]();
      link[Symbol.dispose]();
    };
    signal.addEventListener("abort", release, { once: true });
    return this.#changes(link, path, signal, release);
  }

  async *#changes(link: WorkerLink, path: string, signal: AbortSignal, release: () => void): AsyncGenerator<Change[]> {
    try {
      for (;;) {
        yield await this.#guarded(async () => {
          const frame = await this.#next(link, path, { what: "Watching", signal });
          if (frame.type !== frameType.changes)
            throw new GuestProtocolError("a watch has a frame that is no part of it");
          return decodeChanges(frame);
        });
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      release();
    }
  }

  async sockets(pid = 0): Promise<SocketInfo[]> {
    using _slot = await this.#walks.take();
    using link = this.#open(encodeSockets(pid));
    const sockets: SocketInfo[] = [];
    const deadlineMs = performance.now() + this.#patience.answerTimeoutMs;
    return await this.#guarded(async () => {
      for (;;) {
        const timeoutMs = Math.max(1, deadlineMs - performance.now());
        const frame = await this.#next(link, "/proc/net", { what: "Listing sockets", timeoutMs });
        if (frame.type === frameType.done) return sockets;
        if (frame.type !== frameType.socketList) throw new GuestProtocolError("a list of sockets has another frame");
        sockets.push(...decodeSockets(frame));
        if (sockets.length > socketsMax) throw new GuestProtocolError("a list of sockets is longer than can be");
      }
    });
  }

  #open(request: Buffer): WorkerLink {
    return new WorkerLink(dial(this.#socketPath, connectionKind.files, request));
  }

  async #next(link: WorkerLink, path: string, wait: Parameters<WorkerLink["next"]>[0]): Promise<Frame> {
    const frame = await link.next(wait);
    if (frame.type !== frameType.failed) return frame;
    const { errno, operation } = decodeFailed(frame);
    // An init of an earlier platform does not know the request itself.
    if (operation === "request") {
      throw new AppError(
        "unavailable",
        "This sandbox was made by an earlier version that cannot do this; make a new one.",
      );
    }
    throw fileError(errno, operation, path);
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw error instanceof GuestProtocolError ? this.#violated(error) : error;
    }
  }

  #violated(error: GuestProtocolError): AppError {
    this.#onViolation(error);
    return unintelligible(error);
  }
}
