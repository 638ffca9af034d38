// The mock driver with a place to step in before any of its verbs: a test makes them fail or wait.
import type { InstanceHandle, InstanceSpec } from "../../src/host/drivers/driver.ts";
import { MockDriver } from "../../src/host/drivers/mock.ts";

export type Verb = "create" | "restart" | "setLimits" | "freeze" | "thaw" | "destroy" | "inspect";

export class HookedDriver extends MockDriver {
  /** Called with the instance's id before the verb; throws or waits. That of `thaw` cannot wait. */
  readonly before: Partial<Record<Verb, (id: string) => Promise<void> | void>> = {};
  /** Every verb that changes something, with its instance, in the order they were called. */
  readonly calls: { verb: Verb; id: string }[] = [];
  /** Verbs at work right now, by instance: the caller may never run two on one at once. */
  readonly #running = new Map<string, Verb>();
  readonly overlaps: string[] = [];

  override create(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    return this.#run("create", spec.id, () => super.create(spec, signal));
  }

  override restart(spec: InstanceSpec, signal: AbortSignal): Promise<InstanceHandle> {
    return this.#run("restart", spec.id, () => super.restart(spec, signal));
  }

  override setLimits(id: string): Promise<void> {
    return this.#run("setLimits", id, () => super.setLimits(id));
  }

  override freeze(id: string, signal?: AbortSignal): Promise<void> {
    return this.#run("freeze", id, () => super.freeze(id, signal));
  }

  override thaw(id: string): void {
    this.calls.push({ verb: "thaw", id });
    this.before.thaw?.(id);
    super.thaw(id);
  }

  override destroy(id: string, dir: string): Promise<void> {
    return this.#run("destroy", id, () => super.destroy(id, dir));
  }

  override async inspect(id: string): ReturnType<MockDriver["inspect"]> {
    await this.before.inspect?.(id);
    return super.inspect(id);
  }

  count(verb: Verb): number {
    return this.calls.filter((call) => call.verb === verb).length;
  }

  async #run<T>(verb: Verb, id: string, work: () => Promise<T>): Promise<T> {
    this.calls.push({ verb, id });
    const other = this.#running.get(id);
    if (other !== undefined) this.overlaps.push(`${verb} of ${id} during ${other}`);
    this.#running.set(id, verb);
    try {
      await this.before[verb]?.(id);
      return await work();
    } finally {
      this.#running.delete(id);
    }
  }
}
