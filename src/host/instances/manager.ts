// All instances of this host: claims one for a sandbox, finds it for a request, destroys it, and lets go of them when the daemon stops.
import type { Host, InstanceRequest, InstanceStatus } from "../../contract/host.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { SealKey } from "../../core/seal.ts";
import type { Timing } from "../../core/timing.ts";
import type { SandboxApi } from "../../sandbox-api/session.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Images } from "../images/images.ts";
import type { OpenGuest } from "./guest-slot.ts";
import { Instance } from "./instance.ts";
import { InstanceMachine, sandboxEnvironment } from "./machine.ts";
import type { InstanceMaker, MadeInstance } from "./maker.ts";
import { type InstanceRecord, markDestroying, writeRecord } from "./record.ts";
import { resealInstances } from "./reseal.ts";
import { openEnvironment, openStateKey, sealSecrets, withStateKey } from "./sealed-claim.ts";
import type { WarmPool } from "./warm-pool.ts";

export type ManagerOptions = {
  driver: Driver;
  images: Images;
  sandboxApi: SandboxApi;
  openGuest: OpenGuest;
  maker: InstanceMaker;
  pool: WarmPool;
  sealKey: SealKey;
  log: Logger;
};

/** How many instances the daemon freezes at once when it stops. */
const releasesAtOnceMax = 32;

export class InstanceManager
  implements Pick<Host, "createInstance" | "deleteInstance" | "instanceStatus" | "listInstances">
{
  readonly #options: ManagerOptions;
  /** Keyed by the id the control plane chose. */
  readonly #instances = new Map<string, Instance>();
  readonly #creating = new Map<string, { abort: AbortController; done: Promise<void> }>();
  readonly #deleting = new Map<string, Promise<void>>();
  /** Images of instances an operator has to look at. */
  readonly #leftAlone = new Set<string | undefined>();
  #leftAloneCount = 0;

  constructor(options: ManagerOptions) {
    this.#options = options;
  }

  values(): IterableIterator<Instance> {
    return this.#instances.values();
  }

  find(instanceId: string): Instance | undefined {
    return this.#instances.get(instanceId);
  }

  async createInstance(
    request: InstanceRequest,
    { signal, timing }: { signal: AbortSignal; timing?: Timing },
  ): Promise<void> {
    const { instanceId } = request;
    if (this.#instances.has(instanceId)) return;
    const running = this.#creating.get(instanceId);
    if (running !== undefined) return running.done;
    const abort = new AbortController();
    const done = this.#create(request, AbortSignal.any([signal, abort.signal]), timing).finally(() => {
      this.#creating.delete(instanceId);
    });
    this.#creating.set(instanceId, { abort, done });
    return done;
  }

  async #create(request: InstanceRequest, signal: AbortSignal, timing: Timing | undefined): Promise<void> {
    const { images, pool, maker, log } = this.#options;
    const startedAt = performance.now();
    try {
      const image = images.find(request.image) ?? (await images.resolve(request.image, signal));
      using _held = images.hold(image);
      const warm = pool.take(image);
      if (warm !== undefined) {
        // The same content, perhaps made ready under another of its names.
        warm.record.image = image;
        try {
          return await this.#claim(warm, request, signal);
        } catch (error) {
          if (signal.aborted) throw error;
          log.warn({ instance: warm.record.id, err: error }, "warm instance not usable; another one is made");
        }
      }
      await this.#claim(await maker.make(image, request.memoryMb, signal), request, signal);
    } finally {
      timing?.add("claim", performance.now() - startedAt);
    }
  }

  /** Gives the instance to the sandbox, or destroys it. */
  async #claim(made: MadeInstance, request: InstanceRequest, signal: AbortSignal): Promise<void> {
    const { driver, maker, sealKey } = this.#options;
    const { record, dir, guest } = made;
    const { instanceId, workspace, sandboxName, memoryMb } = request;
    let instance: Instance | undefined;
    try {
      await driver.setLimits(record.id, maker.limits(memoryMb));
      signal.throwIfAborted();
      const secrets = sealSecrets(sealKey, record.id, request.environment);
      record.claim = { instanceId, workspace, sandboxName, memoryMb, ...secrets };
      record.phase = "claimed";
      record.lastUsedAt = new Date().toISOString();
      writeRecord(dir, record, { durable: true });
      instance = this.#instance(record, dir, "awake");
      await this.#bind(instance, request.environment);
      await instance.guest.adopt(guest);
      this.#instances.set(instanceId, instance);
    } catch (error) {
      await instance?.retire();
      await maker.destroy(made);
      throw error;
    }
  }

  /** Takes back a claimed instance that an earlier daemon left; its init is asked only when somebody needs it. */
  async adopt(record: InstanceRecord, dir: string, state: "awake" | "asleep" | "dead"): Promise<void> {
    const { claim } = record;
    if (claim === undefined) throw new Error("only a claimed instance can be adopted");
    const { sealKey } = this.#options;
    const environment = openEnvironment(sealKey, record.id, claim);
    const completed = withStateKey(sealKey, record.id, claim);
    if (completed !== undefined) {
      record.claim = completed;
      writeRecord(dir, record, { durable: true });
    }
    const instance = this.#instance(record, dir, state);
    await this.#bind(instance, environment);
    this.#instances.set(claim.instanceId, instance);
    if (state === "dead") await instance.session.guestLost();
    else if (state === "awake" || instance.usage.isHeld) {
      // What was awake has output to hand over, what has `keepAlive` processes goes on; others sleep until a request comes.
      instance
        .ready()
        .catch((error: unknown) => this.#options.log.warn({ instance: record.id, err: error }, "instance not reached"));
    }
  }

  #instance(record: InstanceRecord, dir: string, state: "awake" | "asleep" | "dead"): Instance {
    const { driver, openGuest, log, maker } = this.#options;
    return new Instance({
      record,
      dir,
      spec: maker.spec(record, dir),
      driver,
      openGuest,
      log,
      state,
      initDigest: maker.initDigest,
    });
  }

  async #bind(instance: Instance, environment: Record<string, string>): Promise<void> {
    const { id, claim } = instance.record;
    if (claim === undefined) throw new Error("only a claimed instance serves a sandbox");
    const machine = new InstanceMachine(instance, {
      environment: sandboxEnvironment(instance.record.image, environment),
      searchProgram: this.#options.driver.searchProgram,
      stateKey: openStateKey(this.#options.sealKey, id, claim),
    });
    instance.bind(await this.#options.sandboxApi.open(machine));
  }

  /** Told by a connection that was made while its instance was warm. */
  guestLost(id: string, reason: string): void {
    for (const instance of this.#instances.values()) {
      if (instance.record.id === id) instance.guest.lost(reason);
    }
  }

  async deleteInstance(instanceId: string): Promise<void> {
    const running = this.#deleting.get(instanceId);
    if (running !== undefined) return running;
    const done = this.#delete(instanceId).finally(() => this.#deleting.delete(instanceId));
    this.#deleting.set(instanceId, done);
    return done;
  }

  async #delete(instanceId: string): Promise<void> {
    const creating = this.#creating.get(instanceId);
    creating?.abort.abort(new AppError("conflict", "The sandbox was deleted while it was being created."));
    await creating?.done.catch(() => undefined);
    const instance = this.#instances.get(instanceId);
    if (instance === undefined) return;
    const { record, dir } = instance;
    markDestroying(dir, record, this.#options.log);
    await instance.retire();
    await this.#options.driver.destroy(record.id, dir);
    this.#instances.delete(instanceId);
  }

  instanceStatus(instanceId: string): InstanceStatus | undefined {
    const instance = this.#instances.get(instanceId);
    if (instance === undefined) return undefined;
    const asleep = instance.state === "asleep" || instance.state === "dead";
    return {
      state: asleep ? "STANDBY" : "RUNNING",
      lastUsedAt: instance.record.lastUsedAt,
      errors: instance.record.errors,
    };
  }

  /** Whether an instance runs on the image's files, or may. */
  usesImage(digest: string): boolean {
    if (this.#leftAlone.has(digest) || this.#leftAlone.has(undefined)) return true;
    for (const { record } of this.#instances.values()) if (record.image.digest === digest) return true;
    return false;
  }

  async resealClaims(instancesDir: string, signal: AbortSignal): Promise<{ resealed: number; unreadable: number }> {
    const { sealKey, log } = this.#options;
    const counted = await resealInstances([...this.#instances.values()], { sealKey, instancesDir, log, signal });
    return { ...counted, unreadable: counted.unreadable + this.#leftAloneCount };
  }

  /** Told of instances that could not be adopted: `undefined` when it is not known which image they have. */
  leaveAlone(digest: string | undefined): void {
    this.#leftAlone.add(digest);
    this.#leftAloneCount += 1;
  }

  listInstances(): ReturnType<Host["listInstances"]> {
    return [...this.#instances.values()].flatMap(({ record }) =>
      record.claim === undefined
        ? []
        : [
            {
              instanceId: record.claim.instanceId,
              workspace: record.claim.workspace,
              sandboxName: record.claim.sandboxName,
              image: record.image.name,
            },
          ],
    );
  }

  /** Puts every instance to sleep and lets go of it; the next daemon finds them as they are. */
  async release(): Promise<void> {
    for (const { abort } of this.#creating.values())
      abort.abort(new AppError("unavailable", "The platform is stopping."));
    await Promise.allSettled([...this.#creating.values()].map(({ done }) => done));
    await Promise.allSettled(this.#deleting.values());
    const instances = [...this.#instances.values()];
    for (let next = 0; next < instances.length; next += releasesAtOnceMax) {
      const slice = instances.slice(next, next + releasesAtOnceMax);
      const released = await Promise.allSettled(slice.map((instance) => instance.release()));
      for (const { reason } of released.filter((one) => one.status === "rejected")) {
        this.#options.log.error({ err: reason }, "instance not put to sleep");
      }
    }
    this.#instances.clear();
  }
}
