// One claimed instance: how it falls asleep, wakes, dies and is started again.
import { createHash } from "node:crypto";
import { AppError, toAppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { GuestProcess, InitUpgrade } from "../../sandbox-api/machine.ts";
import type { SandboxSession } from "../../sandbox-api/session.ts";
import type { Driver, InstanceSpec } from "../drivers/driver.ts";
import type { Carried } from "./carried-bytes.ts";
import { DeathCauses } from "./death-causes.ts";
import { Failures } from "./failures.ts";
import { GuestSlot, type OpenGuest } from "./guest-slot.ts";
import { type InstanceRecord, tryWriteRecord } from "./record.ts";
import { Restarts } from "./restarts.ts";
import { Usage } from "./usage.ts";

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
 *
 * The driver is asked for one thing at a time: a freeze, what a death leaves to do, and a start wait for each other.
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
  /** Of the init that a start of it brings. */
  initDigest: string;
};

const restarts = "it restarts with its files on the next request.";
/** How often one request tries to reach the init again: once it learns of a death, once it meets what was started after it. */
const opensMax = 2;

export class Instance {
  readonly record: InstanceRecord;
  readonly dir: string;
  readonly guest: GuestSlot;
  readonly usage: Usage;
  readonly failures: Failures;
  readonly #driver: Driver;
  readonly #log: Logger;
  readonly #causes: DeathCauses;
  #state: State;
  #session: SandboxSession | undefined;
  /** Bytes came for it, but it could not be thawed. */
  #isWakeOwed = false;
  #freezing: { abort: AbortController; done: Promise<void> } | undefined;
  #readying: Promise<void> | undefined;
  /** What a death leaves to do; never rejects. */
  #aftermath: Promise<void> = Promise.resolve();
  #starting: Promise<void> = Promise.resolve();
  readonly #restarts: Restarts;
  /** Aborts when nobody may use the instance any more; its reason is what callers are told. */
  readonly #end = new AbortController();

  constructor({ record, dir, spec, driver, openGuest, log, state, initDigest }: InstanceOptions) {
    this.record = record;
    this.dir = dir;
    this.#driver = driver;
    this.#log = log.child({ instance: record.id, sandbox: record.claim?.sandboxName });
    this.#state = state;
    this.usage = new Usage(() => {
      record.lastUsedAt = new Date().toISOString();
    });
    const save = () => this.#save();
    this.failures = new Failures({ record, save, log: this.#log });
    this.#restarts = new Restarts({ record, spec, initDigest, driver, failures: this.failures, save });
    this.#causes = new DeathCauses({
      countOomKills: () => this.#count(() => driver.countOomKills(record.id)) ?? 0,
      countProcesses: () => this.#count(() => driver.countProcesses(record.id)),
    });
    this.guest = new GuestSlot({
      causes: this.#causes,
      openGuest,
      log: this.#log,
      socketPath: () => this.record.guestSocketPath,
      onLost: (reason) => this.#died(reason),
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
    const { sink } = session;
    this.guest.bind({
      sink: {
        output: (token, stream, offset, chunk) => sink.output(token, stream, offset, chunk),
        pace: async (token) => sink.pace?.(token),
        exit: async (token, end) => {
          const explained = this.#causes.explain(token, end);
          await sink.exit(token, explained);
          this.#causes.forget(token, explained);
          if (explained.outOfMemory === true) this.failures.addOutOfMemory();
        },
      },
      onConnected: async (processes: readonly GuestProcess[]) => {
        for (const { token, end } of processes) if (end === undefined) this.#causes.started(token);
        await session.guestConnected(processes);
      },
    });
  }

  /** Whether it may sleep, as far as `look` has seen. */
  isIdle(idleMs: number): boolean {
    const isBusy = this.#freezing !== undefined || this.#readying !== undefined;
    return this.#state === "awake" && !isBusy && this.usage.isIdle(idleMs);
  }

  /** Keeps the instance awake until released, waking it at once when it sleeps. Never waits: a dead one is started by `ready`. */
  acquire(): Disposable {
    this.#wakeForUse();
    return this.usage.hold();
  }

  /** Wakes the instance like `acquire`; until released, what the connection carries keeps it awake and wakes it. */
  connect(carried: Carried): Disposable {
    this.#wakeForUse();
    return this.usage.connect(carried);
  }

  /** An open connection carried something: whether it sleeps or not, from now on it is awake for the idle timeout. */
  touch(): void {
    // What is being released is frozen for good: nobody is left to freeze it again.
    if (this.#end.signal.aborted) return;
    try {
      if (this.#state === "asleep" || this.#state === "falling asleep") this.#thaw();
      this.#isWakeOwed = false;
    } catch (error) {
      this.#log.error({ err: error }, "instance did not thaw; it is tried again");
      this.#isWakeOwed = true;
    }
    this.usage.used();
  }

  /** Wakes it when an open connection has carried something since the last time. */
  look(): void {
    const isUsed = this.usage.look();
    if (isUsed || this.#isWakeOwed) this.touch();
  }

  /** Whether a request can be served without waiting. */
  isReady(): boolean {
    return this.#state === "awake" && this.guest.connected;
  }

  /** Resolves when the init answers, starting a dead instance again. The caller keeps it awake meanwhile. */
  ready(): Promise<void> {
    if (this.isReady()) return Promise.resolve();
    this.#readying ??= this.#makeReady().finally(() => {
      this.#readying = undefined;
    });
    return this.#readying;
  }

  /** Replaces the init in place, which is no death: whoever uses the instance notices nothing. */
  async upgrade(binary: Buffer): Promise<InitUpgrade> {
    const upgrade = await this.guest.upgrade(binary);
    this.record.initDigest = createHash("sha256").update(binary).digest("hex");
    this.record.upgradeCount = (this.record.upgradeCount ?? 0) + 1;
    this.#save();
    this.#log.info(upgrade, "init upgraded in place");
    return upgrade;
  }

  /** Freezes an idle instance; does nothing when somebody came first. */
  async sleep(idleMs: number): Promise<void> {
    this.look();
    if (this.isIdle(idleMs)) await this.#fallAsleep();
  }

  /** Cuts the instance off from requests and waits for what is under way; the manager destroys it afterwards. */
  async retire(): Promise<void> {
    this.#state = "destroying";
    this.#freezing?.abort.abort();
    // Not `not_found`: whoever is using its files would take that for a file that is missing.
    await this.#settle(new AppError("unavailable", "The sandbox is being deleted."));
    await this.#dispose();
  }

  /** Lets go of the instance because the daemon stops: it is frozen, whoever uses it, and goes on sleeping. */
  async release(): Promise<void> {
    await this.#settle(new AppError("unavailable", "The platform is stopping."));
    if (this.#state === "awake") await this.#fallAsleep();
    await this.#dispose();
  }

  #wakeForUse(): void {
    this.#end.signal.throwIfAborted();
    if (this.#state === "asleep" || this.#state === "falling asleep") this.#thaw();
  }

  async #fallAsleep(): Promise<void> {
    this.#state = "falling asleep";
    const abort = new AbortController();
    this.#freezing = { abort, done: this.#freeze(abort.signal) };
    await this.#freezing.done;
    this.#freezing = undefined;
  }

  async #freeze(signal: AbortSignal): Promise<void> {
    try {
      await this.#driver.freeze(this.record.id, signal);
    } catch (error) {
      this.#log.warn({ err: error }, "instance did not freeze; it stays awake");
      this.usage.postpone();
      if (this.#state === "falling asleep") this.#state = "awake";
    }
    if (this.#state === "falling asleep") {
      this.#state = "asleep";
      this.#save();
    }
    if (this.#state === "awake") this.#thawAgain();
  }

  #thaw(): void {
    this.#freezing?.abort.abort();
    this.#driver.thaw(this.record.id);
    this.#state = "awake";
  }

  /** Whoever woke it during a freeze has thawed it; the freeze may have written after that, or have stopped half-way. */
  #thawAgain(): void {
    try {
      this.#driver.thaw(this.record.id);
    } catch (error) {
      this.#log.error({ err: error }, "instance did not thaw; the next request tries again");
      this.#state = "asleep";
    }
  }

  async #makeReady(): Promise<void> {
    for (let repeats = 0; ; repeats++) {
      await this.#aftermath;
      this.#end.signal.throwIfAborted();
      if (this.#state === "dead") {
        this.#starting = this.#restart();
        await this.#starting;
      }
      try {
        return await this.guest.open();
      } catch (error) {
        // Nobody had noticed that its init was gone, or it goes at this moment: whoever asks meets a fresh one instead.
        if (repeats === opensMax || toAppError(error).code !== "unavailable") throw error;
      }
    }
  }

  #died(reason: string): void {
    if (this.#state === "destroying" || this.#state === "dead") return;
    this.#state = "dead";
    this.#freezing?.abort.abort();
    this.#restarts.died();
    this.#aftermath = this.#bury(reason).catch((error: unknown) => {
      this.#log.error({ err: error }, "what a dead instance left could not be settled");
    });
  }

  async #bury(reason: string): Promise<void> {
    await this.#freezing?.done;
    const { id } = this.record;
    const condition = await this.#driver.inspect(id).catch(() => undefined);
    // An init that lives but broke the protocol must not go on unwatched.
    if (condition?.status === "running") await this.#driver.freeze(id).catch(() => undefined);
    if ((condition?.oomKills ?? 0) > 0) {
      this.failures.add("OUT_OF_MEMORY", `The sandbox ran out of memory and its init was killed; ${restarts}`);
    } else this.failures.add("INSTANCE_LOST", `The sandbox's init stopped answering (${reason}); ${restarts}`);
    await this.#session?.guestLost();
  }

  async #restart(): Promise<void> {
    await this.#restarts.start(this.#end.signal);
    this.#causes.reset();
    if (this.#state === "dead") this.#state = "awake";
    this.#save();
    this.#log.info("instance restarted on its files");
  }

  /** Nobody comes in any more, and nothing is asked of the driver any more when this resolves. */
  async #settle(reason: AppError): Promise<void> {
    this.#end.abort(reason);
    await this.#freezing?.done;
    await this.#starting.catch(() => undefined);
    await this.#aftermath;
  }

  async #dispose(): Promise<void> {
    await this.guest[Symbol.asyncDispose]();
    try {
      await this.#session?.[Symbol.asyncDispose]();
    } catch (error) {
      this.#log.error({ err: error }, "sandbox API not closed in order");
    }
  }

  /** Nothing may fail because its cause cannot be told. */
  #count<T>(count: () => T): T | undefined {
    try {
      return count();
    } catch (error) {
      this.#log.warn({ err: error }, "what the kernel counts of the instance could not be read");
      return undefined;
    }
  }

  #save(): void {
    if (this.#state !== "destroying") tryWriteRecord(this.dir, this.record, this.#log);
  }
}
