// Who uses an instance, and since when nobody does: what decides whether it may sleep.
import type { Carried } from "./carried-bytes.ts";

/** However short the idle timeout, an open connection has this long to answer what it was asked. */
const silenceMinMs = 500;

type Connection = { carried: Carried /** When it was last asked. */; seen: number | undefined };

/**
 * Two things are use: holds, which last until they are released, and what open connections carry. A connection is
 *
 *              answer has begun                     nothing carried
 *   awaited ──────────────────────► carrying ────────────────────────► silent      only silent ones: the instance sleeps, and they stay open
 *                                       ▲                                 │
 *                                       └──── a byte, from either side ───┘
 */
export class Usage {
  readonly #onUse: () => void;
  readonly #now: () => number;
  readonly #connections = new Set<Connection>();
  #holds = 0;
  #lastUseMs: number;

  /** `onUse` is told whenever the time without use begins anew. */
  constructor(onUse: () => void, now: () => number = () => performance.now()) {
    this.#onUse = onUse;
    this.#now = now;
    this.#lastUseMs = now();
  }

  /** Whether somebody is in the way of sleep, whatever happens. */
  get isHeld(): boolean {
    return this.#holds > 0;
  }

  /** Whether there is anybody to notice what happens to the instance, however silent. */
  get isPresent(): boolean {
    return this.#holds > 0 || this.#connections.size > 0;
  }

  /** In use until released, and then for the idle timeout. */
  hold(): Disposable {
    this.used();
    this.#holds++;
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#holds--;
        this.used();
      },
    };
  }

  /** In use whenever the connection has carried something, until released. */
  connect(carried: Carried): Disposable {
    this.used();
    const connection: Connection = { carried, seen: undefined };
    this.#connections.add(connection);
    return {
      [Symbol.dispose]: () => {
        if (this.#connections.delete(connection)) this.used();
      },
    };
  }

  /** The time without use begins now. */
  used(): void {
    this.#lastUseMs = this.#now();
    this.#onUse();
  }

  /** It may sleep after another idle timeout, though nobody has used it. */
  postpone(): void {
    this.#lastUseMs = this.#now();
  }

  /** Asks open connections whether one has carried something since the last time, or is awaited. */
  look(): boolean {
    let isUsed = false;
    for (const connection of this.#connections) {
      const carried = connection.carried();
      if (carried === undefined || carried !== connection.seen) isUsed = true;
      connection.seen = carried;
    }
    return isUsed;
  }

  /** Whether nobody has used it for `idleMs`, as far as `look` has seen and `used` has told. */
  isIdle(idleMs: number): boolean {
    const silentMs = this.#connections.size === 0 ? idleMs : Math.max(idleMs, silenceMinMs);
    return this.#holds === 0 && this.#now() - this.#lastUseMs >= silentMs;
  }
}
