// Changes the sealing key while the platform serves. At every moment the key file and the database say together which keys are needed, so a
// crash loses nothing, and asking again goes on where it stopped.
//
//   key file: old          → new + old        → new + old        → new
//   database: old          → needs new + old  → needs new        → needs new
//                            everything sealed anew ┘  nothing is left ┘ the old key is dropped
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import type { Host } from "../../contract/host.ts";
import type { SealKeyRotation, SealKeyStatus } from "../../contract/operator/seal-key.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { SealKeys } from "../../core/seal-keys.ts";
import { sealedColumns } from "./sealed-columns.ts";
import type { Position, SealKeyStore } from "./store.ts";

const portionMax = 100;
const walksMax = 20;

export type RotationOptions = {
  keys: SealKeys;
  store: SealKeyStore;
  host: Pick<Host, "resealInstances">;
  /** Longer than anything that was sealed before the change may take to be written. */
  settleMs: number;
  log: Logger;
};

export class SealKeyRotations implements AsyncDisposable {
  readonly #options: RotationOptions;
  readonly #stop = new AbortController();
  #rotation: SealKeyRotation | undefined;
  #work: Promise<void> | undefined;

  constructor(options: RotationOptions) {
    this.#options = options;
  }

  status(): SealKeyStatus {
    const { key, source } = this.#options.keys;
    return {
      keyId: key.id,
      previousKeyIds: [...key.previousIds],
      source,
      ...(this.#rotation && { rotation: { ...this.#rotation } }),
    };
  }

  /** Begins a change of the key, goes on with one that was interrupted, or joins the one under way. */
  async start(): Promise<SealKeyStatus> {
    if (this.#work !== undefined) return this.status();
    const { keys } = this.#options;
    if (keys.source === "environment" && keys.key.previousIds.length === 0) {
      const how =
        "start it with the new one in CATNAP_SEAL_KEY and this one in CATNAP_SEAL_KEY_PREVIOUS, then ask again";
      throw new AppError("invalid_request", `The platform has its key from the environment: ${how}.`);
    }
    this.#rotation = { phase: "sealing", resealed: 0, remaining: 0 };
    this.#work = this.#run()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#work = undefined;
      });
    return this.status();
  }

  async #run(): Promise<void> {
    const { keys, store, settleMs, log } = this.#options;
    if (keys.key.previousIds.length === 0) {
      const before = keys.key.id;
      const next = keys.prepare();
      await store.begin(next.keyId, before);
      next.start();
    }
    log.info({ keyId: keys.key.id, previousKeyIds: keys.key.previousIds }, "everything is sealed anew");
    for (let walk = 1; ; walk += 1) {
      const found = await this.#walk();
      // What was sealed before the change and written since is met by a walk after the longest time that can take.
      if (walk > 1 && found === 0) break;
      if (walk === walksMax) throw new AppError("conflict", "Texts are still being sealed with the old key.");
      this.#change({ phase: "settling" });
      await delay(settleMs, undefined, { signal: this.#stop.signal });
    }
    await store.end();
    keys.finish();
    this.#change({ phase: "done", remaining: 0 });
    log.info({ keyId: keys.key.id }, "the sealing key has changed");
  }

  /** Seals everything anew that is not sealed with the current key; how much that was. */
  async #walk(): Promise<number> {
    const { keys, store, host } = this.#options;
    const counts = await Promise.all(sealedColumns.map((column) => store.countOld(column, keys.key.prefix)));
    this.#change({ phase: "sealing", remaining: counts.reduce((sum, count) => sum + count, 0) });
    let found = 0;
    let unreadable = 0;
    for (const column of sealedColumns) {
      let after: Position | undefined;
      do {
        this.#stop.signal.throwIfAborted();
        const portion = await store.resealSome(column, keys.key, after, portionMax);
        after = portion.end;
        found += portion.resealed;
        unreadable += portion.unreadable;
        this.#count(portion.resealed);
        await turn();
      } while (after !== undefined);
    }
    const instances = await host.resealInstances(this.#stop.signal);
    this.#count(instances.resealed);
    unreadable += instances.unreadable;
    if (unreadable > 0) {
      throw new AppError(
        "conflict",
        `${unreadable} sealed texts could not be opened, or belong to instances that could not be read. The old key is kept.`,
      );
    }
    return found + instances.resealed;
  }

  #count(resealed: number): void {
    const { resealed: before = 0, remaining = 0 } = this.#rotation ?? {};
    this.#change({ resealed: before + resealed, remaining: Math.max(0, remaining - resealed) });
  }

  #change(changes: Partial<SealKeyRotation>): void {
    this.#rotation = { phase: "sealing", resealed: 0, remaining: 0, ...this.#rotation, ...changes };
  }

  #failed(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#options.log.error({ err: error }, "the change of the sealing key stopped; both keys stay in use");
    const reason = error instanceof AppError ? error.message : "It stopped for a reason that the platform's log has.";
    this.#change({ phase: "failed", reason });
  }

  /** What is not done yet waits for the next time. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#work;
  }
}
