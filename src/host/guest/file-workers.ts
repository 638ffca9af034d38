// Connections to workers that have answered: one is kept for a moment, because the next operation most often follows at once, and neither a fork nor a
// connection is made for it then. The host's end alone says how long a worker stays.
import type { Socket } from "node:net";
import { dial } from "./dial.ts";
import { connectionKind } from "./protocol.ts";

/** As many operations as one caller is likely to have under way. */
const keptMax = 16;
const keptMs = 1_000;

export type Worker = {
  socket: Socket;
  /** It has served before, and may have ended unheard. */
  isKept: boolean;
  /** Of which init it is. */
  round: number;
};

export class FileWorkers {
  readonly #socketPath: string;
  readonly #isAble: () => boolean;
  /** The one used last comes last. */
  readonly #kept = new Map<Socket, { sinceMs: number; onEvent: () => void }>();
  #round = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `isAble`: whether the init inside knows workers that serve more than one request. */
  constructor(options: { socketPath: string; isAble: () => boolean }) {
    this.#socketPath = options.socketPath;
    this.#isAble = options.isAble;
  }

  /** A worker with the request on its way. */
  ask(request: Buffer): Worker {
    const socket = [...this.#kept.keys()].at(-1);
    if (socket === undefined) return this.askNew(request);
    this.#forget(socket);
    socket.write(request);
    return { socket, isKept: true, round: this.#round };
  }

  askNew(request: Buffer): Worker {
    return { socket: dial(this.#socketPath, connectionKind.files, request), isKept: false, round: this.#round };
  }

  /** Takes back a connection whose answer was read to its end; its listeners have to be gone. */
  keep({ socket, round }: Worker): void {
    const isUsable = this.#isAble() && round === this.#round && this.#kept.size < keptMax;
    if (!isUsable || socket.destroyed || socket.readableEnded || socket.readableLength > 0) {
      socket.on("error", () => undefined).destroy();
      return;
    }
    // Unasked, it can only say that it ends.
    const onEvent = (): void => {
      this.#forget(socket);
      socket.on("error", () => undefined).destroy();
    };
    socket.on("readable", onEvent).on("end", onEvent).on("close", onEvent).on("error", onEvent);
    this.#kept.set(socket, { sinceMs: performance.now(), onEvent });
    this.#timer ??= setTimeout(() => this.#sweep(), keptMs).unref();
  }

  /** Ends the kept ones: another init is to serve from now on, or none. */
  drop(): void {
    this.#round += 1;
    for (const { onEvent } of [...this.#kept.values()]) onEvent();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #forget(socket: Socket): void {
    const kept = this.#kept.get(socket);
    if (kept === undefined) return;
    const { onEvent } = kept;
    socket.off("readable", onEvent).off("end", onEvent).off("close", onEvent).off("error", onEvent);
    this.#kept.delete(socket);
  }

  #sweep(): void {
    const longest = performance.now() - keptMs;
    for (const { sinceMs, onEvent } of [...this.#kept.values()]) if (sinceMs <= longest) onEvent();
    this.#timer = this.#kept.size === 0 ? undefined : setTimeout(() => this.#sweep(), keptMs).unref();
  }
}
