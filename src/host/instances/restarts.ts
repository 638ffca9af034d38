// Starts a dead instance again on the files it left: with which pauses, and what its record says of it.
import { setTimeout as delay } from "node:timers/promises";
import { Backoff } from "../../core/backoff.ts";
import { AppError } from "../../core/errors.ts";
import type { Driver, InstanceSpec } from "../drivers/driver.ts";
import type { Failures } from "./failures.ts";
import type { InstanceRecord } from "./record.ts";

const startTimeoutMs = 30_000;
/** An instance that dies sooner after a start than this has not got over what killed it. */
const recoveredAfterMs = 10_000;
/** A caller that repeats its request must not make the machine start over and over what cannot run. */
const pause = { firstMs: 500, maxMs: 10_000 };

export type RestartsOptions = {
  record: InstanceRecord;
  spec: InstanceSpec;
  /** Of the init that a start brings. */
  initDigest: string;
  driver: Driver;
  failures: Failures;
  save: () => void;
};

export class Restarts {
  readonly #options: RestartsOptions;
  readonly #backoff = new Backoff(pause);
  #startedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: RestartsOptions) {
    this.#options = options;
  }

  /** The instance died: the next start waits if this one came too soon after the last. */
  died(): void {
    if (performance.now() - this.#startedAtMs < recoveredAfterMs) this.#backoff.failed();
    else this.#backoff.succeeded();
  }

  /** Rejects with `unavailable`, and the next request tries again; with the signal's reason when that aborts. */
  async start(signal: AbortSignal): Promise<void> {
    const { record, spec, initDigest, driver, failures, save } = this.#options;
    try {
      await delay(this.#backoff.remainingMs, undefined, { signal });
      // Before the start: nobody may take a process of an earlier one for one of this.
      record.startCount = (record.startCount ?? 0) + 1;
      save();
      const deadline = AbortSignal.timeout(startTimeoutMs);
      const handle = await driver.restart(spec, AbortSignal.any([signal, deadline]));
      record.guestSocketPath = handle.guestSocketPath;
      record.initDigest = initDigest;
    } catch (error) {
      signal.throwIfAborted();
      this.#backoff.failed();
      failures.add("RESTART_FAILED", "The sandbox could not be started again; the next request tries once more.");
      throw new AppError("unavailable", "The sandbox died and could not be restarted; try again.", { cause: error });
    }
    this.#startedAtMs = performance.now();
  }
}
