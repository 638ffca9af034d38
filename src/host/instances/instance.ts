// One claimed instance: who uses it right now, when it sleeps, how it wakes, and what happens when it dies.
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { GuestProcess } from "../../sandbox-api/machine.ts";
import type { SandboxSession } from "../../sandbox-api/session.ts";
import type { Driver, InstanceSpec } from "../drivers/driver.ts";
import { GuestSlot, type OpenGuest } from "./guest-slot.ts";
import { type InstanceRecord, writeRecord } from "./record.ts";

/**
 * Every transition happens in this file, synchronously where a request waits:
 *
 *              idle                    frozen
 *   awake ───────────► falling asleep ───────► asleep
 *     ▲ ▲                    │                   │
 *     │ └── request ─────────┘◄──── request ─────┘      a request only thaws: one write to a cgroup file
 *     │
 *     └──────────── dead ◄──── the init is gone          the next request starts it again on the files it left
 *
 *   any ──► destroying                                   final
 */
type State = "awake" | "falling asleep" | "asleep" | "dead" | "destroying";

export type InstanceOptions = {
  record: InstanceRecord;
  dir: string;
  spec: InstanceSpec;
  driver: Driver;
  openGuest: OpenGuest;
  log: Logger;
  state: "awake" | "asleep" | "dead";
};

const restartsMax = 3;
const restartTimeoutMs = 30_000;

export class Instance {
  readonly record: InstanceRecord;
  readonly dir: string;
  readonly guest: GuestSlot;
  readonly #spec: InstanceSpec;
  readonly #driver: Driver;
  readonly #log: Logger;
  #state: State;
  #session: SandboxSession | undefined;
  #users = 0;
  #lastActiveMs = Date.now();
  #freezing: { abort: AbortController; done: Promise<void> } | undefined;
  #readying: Promise<void> | undefined;
  #failedRestarts = 0;

  constructor({ record, dir, spec, driver, openGuest, log, state }: InstanceOptions) {
    this.record = record;
    this.dir = dir;
    this.#spec = spec;
    this.#driver = driver;
    this.#log = log.child({ instance: record.id, sandbox: record.claim?.sandboxName });
    this.#state = state;
    this.guest = new GuestSlot({
      openGuest,
      log: this.#log,
      socketPath: () => this.record.guestSocketPath,
      onLost: (reason) => void this.#died(reason),
      ready: () => this.ready(),
    });
  }

  get state(): State {
    return this.#state;
  }

  get session(): SandboxSession {
    if (this.#session === undefined) throw new AppError("unavailable", "The sandbox is not ready yet; try again.");
    return this.#session;
  }

  /** Connects the sandbox API; from here on the guest's output has a receiver. */
  bind(session: SandboxSession): void {
    this.#session = session;
    this.guest.bind({
      sink: session.sink,
      onConnected: (processes: readonly GuestProcess[]) => session.guestConnected(processes),
    });
  }

  /** Whether nobody has used it for `idleMs`. */
  isIdle(idleMs: number): boolean {
    return this.#state === "awake" && this.#users === 0 && Date.now() - this.#lastActiveMs >= idleMs;
  }

  /** Whether somebody keeps it awake right now. */
  isHeld(): boolean {
    return this.#users > 0;
  }

  /** Keeps the instance awake until released, waking it at once when it sleeps. Never waits: a dead one is started by `ready`. */
  acquire(): Disposable {
    if (this.#state === "destroying") throw new AppError("not_found", "The sandbox is being deleted.");
    this.#users++;
    this.#touch();
    if (this.#state === "asleep" || this.#state === "falling asleep") this.#thaw();
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        this.#users--;
        this.#touch();
      },
    };
  }

  /** Whether a request can be served without waiting. */
  isReady(): boolean {
    return this.#state === "awake" && this.guest.connected;
  }

  /** Resolves when the init answers, starting a dead instance again. The caller holds a lease. */
  ready(): Promise<void> {
    if (this.isReady()) return Promise.resolve();
    this.#readying ??= this.#makeReady().finally(() => {
      this.#readying = undefined;
    });
    return this.#readying;
  }

  /** Freezes an idle instance; does nothing when somebody came first. */
  async sleep(): Promise<void> {
    if (this.#state !== "awake" || this.#users > 0 || this.#freezing !== undefined) return;
    this.#state = "falling asleep";
    const abort = new AbortController();
    const done = this.#freeze(abort.signal);
    this.#freezing = { abort, done };
    await done;
  }

  /** Freezes whatever runs because the daemon stops; users are gone by then. */
  async sleepForShutdown(): Promise<void> {
    await this.#freezing?.done;
    if (this.#state !== "awake") return;
    this.#users = 0;
    await this.sleep();
  }

  /** Cuts the instance off from requests; the manager destroys it afterwards. */
  async retire(): Promise<void> {
    this.#state = "destroying";
    this.#freezing?.abort.abort();
    await this.#freezing?.done;
    await this.#readying?.catch(() => undefined);
    await this.guest[Symbol.asyncDispose]();
    await this.#session?.[Symbol.asyncDispose]();
  }

  /** Lets go of the instance without touching it: the daemon stops, the instance goes on sleeping. */
  async release(): Promise<void> {
    await this.guest[Symbol.asyncDispose]();
    await this.#session?.[Symbol.asyncDispose]();
  }

  #touch(): void {
    this.#lastActiveMs = Date.now();
    this.record.lastUsedAt = new Date(this.#lastActiveMs).toISOString();
  }

  #thaw(): void {
    this.#freezing?.abort.abort();
    this.#state = "awake";
    this.#driver.thaw(this.record.id);
  }

  async #freeze(signal: AbortSignal): Promise<void> {
    try {
      await this.#driver.freeze(this.record.id, signal);
      if (this.#state === "falling asleep") {
        this.#state = "asleep";
        writeRecord(this.dir, this.record);
      }
    } catch (error) {
      if (this.#state === "falling asleep") {
        this.#log.warn({ err: error }, "instance did not freeze; it stays awake");
        this.#thaw();
      }
    } finally {
      this.#freezing = undefined;
      // A request that came while the freeze was under way has thawed it already; the freeze may have written after that.
      if (this.#state === "awake") this.#driver.thaw(this.record.id);
    }
  }

  async #makeReady(): Promise<void> {
    if (this.#state === "dead") await this.#restart();
    if (this.#state === "destroying") throw new AppError("not_found", "The sandbox is being deleted.");
    await this.guest.open();
  }

  async #died(reason: string): Promise<void> {
    if (this.#state === "destroying" || this.#state === "dead") return;
    this.#state = "dead";
    this.#freezing?.abort.abort();
    const condition = await this.#driver.inspect(this.record.id).catch(() => undefined);
    // An init that lives but broke the protocol must not go on unwatched.
    if (condition?.status === "running") await this.#driver.freeze(this.record.id).catch(() => undefined);
    const outOfMemory = (condition?.oomKills ?? 0) > 0;
    this.#recordError({
      code: outOfMemory ? "OUT_OF_MEMORY" : "INSTANCE_LOST",
      fatal: false,
      message: outOfMemory
        ? "The sandbox ran out of memory and its init was killed; it restarts with its files on the next request."
        : `The sandbox's init stopped answering (${reason}); it restarts with its files on the next request.`,
    });
    await this.#session
      ?.guestLost()
      .catch((error: unknown) => this.#log.error({ err: error }, "session clean-up failed"));
  }

  async #restart(): Promise<void> {
    if (this.#failedRestarts >= restartsMax) {
      throw new AppError("unavailable", "The sandbox failed and could not be restarted; see its errors.");
    }
    try {
      const handle = await this.#driver.restart(this.#spec, AbortSignal.timeout(restartTimeoutMs));
      this.record.guestSocketPath = handle.guestSocketPath;
      writeRecord(this.dir, this.record);
      this.#failedRestarts = 0;
      if (this.#state === "dead") this.#state = "awake";
      this.#log.info("instance restarted on its files");
    } catch (error) {
      this.#failedRestarts++;
      const fatal = this.#failedRestarts >= restartsMax;
      this.#recordError({ code: "RESTART_FAILED", fatal, message: "The sandbox could not be restarted." });
      throw new AppError("unavailable", "The sandbox died and could not be restarted; try again.", { cause: error });
    }
  }

  #recordError(error: { code: string; fatal: boolean; message: string }): void {
    this.#log.warn({ error }, "instance failure");
    this.record.errors.push({ ...error, instance: this.record.id, time: new Date().toISOString() });
    if (this.#state !== "destroying") writeRecord(this.dir, this.record);
  }
}
