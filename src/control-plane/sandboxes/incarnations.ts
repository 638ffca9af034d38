// Has the host make instances: each within a deadline, each to be aborted, and each known to be under way until the host lets go of it.
import type { Host, InstanceRequest } from "../../contract/host.ts";
import type { Timing } from "../../core/timing.ts";

/** How long an aborted attempt may take to settle before its caller is answered without it. */
const abortGraceMs = 5_000;

/** What an old instance still answers when the new one takes over may end there; what takes longer is cut off. */
const drainMs = 1_000;

export type Incarnation = {
  /** Aborted when the time is over, when the sandbox is being deleted, and when the platform stops. */
  readonly signal: AbortSignal;
  /** Resolves when the instance answers requests; rejects no later than the deadline and a grace. */
  make(request: InstanceRequest, timing: Timing): Promise<void>;
  /** From here on it counts as under way only as long as the host has not let go of it. */
  end(): void;
};

export type IncarnationsOptions = {
  host: Host;
  timeoutMs: number;
  /** Told when the host has let go of an aborted one: what waited for that may go on. */
  onAborted: () => void;
};

type UnderWay = { instanceId: string; abort: AbortController; settled: Promise<void> };

export class Incarnations implements AsyncDisposable {
  readonly #options: IncarnationsOptions;
  /** By sandbox id: a sandbox gets one instance at a time. */
  readonly #underWay = new Map<string, UnderWay>();

  readonly #draining = new Set<string>();

  constructor(options: IncarnationsOptions) {
    this.#options = options;
  }

  isRunning(sandboxId: string): boolean {
    return this.#underWay.has(sandboxId);
  }

  /** Whether the instance is being made for a sandbox, or has been replaced and ends its answers: no record says either. */
  isNeeded(instanceId: string): boolean {
    return this.#draining.has(instanceId) || [...this.#underWay.values()].some((one) => one.instanceId === instanceId);
  }

  /** Calls back when a replaced instance has had its time to end its answers. */
  drain(instanceId: string, done: () => void): void {
    this.#draining.add(instanceId);
    const end = (): void => {
      this.#draining.delete(instanceId);
      done();
    };
    setTimeout(end, drainMs).unref();
  }

  /** Ends an attempt early, because the sandbox is being deleted. */
  abort(sandboxId: string): void {
    this.#underWay.get(sandboxId)?.abort.abort();
  }

  /** Resolves when the sandbox's attempt, if there is one, has ended or the time is over. */
  async settled(sandboxId: string): Promise<void> {
    const underWay = this.#underWay.get(sandboxId);
    if (underWay !== undefined) await within(underWay.settled, this.#options.timeoutMs);
  }

  /** To be called before the record says so: a reconciliation must not take the record for one that a crash left behind. */
  begin({ id, instanceId }: { id: string; instanceId: string }): Incarnation {
    const { host, timeoutMs, onAborted } = this.#options;
    const abort = new AbortController();
    const { promise: settled, resolve: settle } = Promise.withResolvers<void>();
    this.#underWay.set(id, { instanceId, abort, settled });
    let hostDone: Promise<unknown> = Promise.resolve();
    return {
      signal: abort.signal,
      make(request, timing) {
        const deadline = setTimeout(() => abort.abort(), timeoutMs);
        const made = host.createInstance(request, { signal: abort.signal, timing });
        hostDone = made.then(
          () => clearTimeout(deadline),
          () => clearTimeout(deadline),
        );
        return Promise.race([made, rejectAfterAbort(abort.signal)]);
      },
      end: () => {
        void hostDone.then(() => {
          this.#underWay.delete(id);
          settle();
          if (abort.signal.aborted) onAborted();
        });
      },
    };
  }

  /** Aborts what is under way and waits, within a bound, until it is undone. */
  async [Symbol.asyncDispose](): Promise<void> {
    const underWay = [...this.#underWay.values()];
    for (const { abort } of underWay) abort.abort();
    await within(Promise.all(underWay.map(({ settled }) => settled)), 2 * abortGraceMs);
  }
}

/** Rejects some time after the abort: a host that reacts to it settles first. */
function rejectAfterAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const give = (): void => {
      setTimeout(() => reject(new Error("the host has not let go in time")), abortGraceMs).unref();
    };
    if (signal.aborted) give();
    else signal.addEventListener("abort", give, { once: true });
  });
}

/** Resolves when `work` does or the time is over, whichever comes first. */
async function within(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const timer = Promise.withResolvers<void>();
  const timeout = setTimeout(timer.resolve, timeoutMs);
  await Promise.race([work, timer.promise]);
  clearTimeout(timeout);
}
