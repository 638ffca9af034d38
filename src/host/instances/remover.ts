// Destroys instances that belong to nobody; what cannot be destroyed at once is tried again until it is gone.
import type { Logger } from "../../core/log.ts";
import { type Loop, startLoop } from "../../core/loop.ts";
import type { Driver } from "../drivers/driver.ts";

export type RemoverOptions = { driver: Driver; log: Logger; retryMs: number };

export class Remover implements AsyncDisposable {
  readonly #options: RemoverOptions;
  /** Directories by id: what is being destroyed right now and what is tried again. */
  readonly #doomed = new Map<string, string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #loop: Loop;

  constructor(options: RemoverOptions) {
    this.#options = options;
    this.#loop = startLoop({
      name: "remover",
      intervalMs: options.retryMs,
      log: options.log,
      work: async (signal) => {
        for (const id of [...this.#doomed.keys()]) if (!signal.aborted) await this.#destroy(id);
      },
    });
  }

  /** Resolves when it is gone or will be tried again; never rejects. */
  remove(id: string, dir: string): Promise<void> {
    this.#doomed.set(id, dir);
    return this.#destroy(id);
  }

  #destroy(id: string): Promise<void> {
    const running = this.#running.get(id);
    if (running !== undefined) return running;
    const { driver, log } = this.#options;
    const destroyed = driver
      .destroy(id, this.#doomed.get(id)!)
      .then(
        () => void this.#doomed.delete(id),
        (error: unknown) => log.error({ instance: id, err: error }, "an instance of nobody is not gone; tried again"),
      )
      .finally(() => this.#running.delete(id));
    this.#running.set(id, destroyed);
    return destroyed;
  }

  /** What is left is met by the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    await Promise.all(this.#running.values());
  }
}
