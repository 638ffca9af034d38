// Tells what is met for the first time: what stays broken is met again with every request, and must not fill the log.
import { BoundedMap } from "./bounded-map.ts";

export class FirstTime {
  readonly #met = new BoundedMap<string, true>(1_000);

  /** True once for each name. */
  meets(name: string): boolean {
    const isFirst = this.#met.get(name) === undefined;
    this.#met.set(name, true);
    return isFirst;
  }

  /** What has ended is news when it begins again. */
  forget(name: string): void {
    this.#met.delete(name);
  }
}
