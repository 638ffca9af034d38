// The place where an instance's guest connection comes and goes while everyone above holds one stable `Guest`.
import type { Duplex } from "node:stream";
import type { Logger } from "../../core/log.ts";
import type { Guest, GuestFiles, GuestProcess, ProcessSink, SpawnRequest } from "../../sandbox-api/machine.ts";

/** A connection to one incarnation of the init; disposing it closes the host's side only. */
export type GuestConnection = Guest &
  AsyncDisposable & {
    attach(receiver: GuestReceiver): Promise<void>;
  };

export type GuestReceiver = {
  sink: ProcessSink;
  onConnected: (processes: readonly GuestProcess[]) => Promise<void>;
};

export type OpenGuest = (options: {
  socketPath: string;
  log: Logger;
  onLost: (reason: string) => void;
}) => Promise<GuestConnection>;

export type GuestSlotOptions = {
  openGuest: OpenGuest;
  log: Logger;
  /** Asked at every opening, because a restarted instance may listen elsewhere. */
  socketPath: () => string;
  onLost: (reason: string) => void;
  /** Makes the slot connected, e.g. after the daemon restarted and nobody asked yet. */
  ready: () => Promise<void>;
};

export class GuestSlot implements Guest, AsyncDisposable {
  readonly #options: GuestSlotOptions;
  #connection: GuestConnection | undefined;
  #receiver: GuestReceiver | undefined;

  constructor(options: GuestSlotOptions) {
    this.#options = options;
  }

  get connected(): boolean {
    return this.#connection !== undefined;
  }

  bind(receiver: GuestReceiver): void {
    this.#receiver = receiver;
  }

  /** Opens a connection unless there is one; with a receiver bound, resolves after it has taken over the guest's processes. */
  async open(): Promise<void> {
    if (this.#connection !== undefined) return;
    const { openGuest, socketPath, log } = this.#options;
    let lost: string | undefined;
    const connection = await openGuest({
      socketPath: socketPath(),
      log,
      onLost: (reason) => {
        lost = reason;
        if (this.#connection === connection) this.lost(reason);
      },
    });
    await this.adopt(connection);
    if (lost !== undefined) this.lost(lost);
  }

  /** Forgets a connection whose other end is gone. */
  lost(reason: string): void {
    if (this.#connection === undefined) return;
    this.#connection = undefined;
    this.#options.onLost(reason);
  }

  /** Takes over a connection, e.g. one made while the instance was warm; with a receiver bound, hands it the guest's processes first. */
  async adopt(connection: GuestConnection): Promise<void> {
    if (this.#receiver !== undefined) await connection.attach(this.#receiver);
    this.#connection = connection;
  }

  async #get(): Promise<GuestConnection> {
    if (this.#connection === undefined) await this.#options.ready();
    return this.#connection!;
  }

  async spawn(request: SpawnRequest, signal?: AbortSignal): Promise<{ pid: number }> {
    return (this.#connection ?? (await this.#get())).spawn(request, signal);
  }

  async signal(token: string, signal: number): Promise<void> {
    return (this.#connection ?? (await this.#get())).signal(token, signal);
  }

  async connect(port: number, signal?: AbortSignal): Promise<Duplex> {
    return (this.#connection ?? (await this.#get())).connect(port, signal);
  }

  get files(): GuestFiles {
    const get = () => this.#get();
    return {
      stat: async (path) => (await get()).files.stat(path),
      list: async (path, entriesMax) => (await get()).files.list(path, entriesMax),
      read: async (path, range) => (await get()).files.read(path, range),
      write: async (path, body, options) => (await get()).files.write(path, body, options),
      makeDirectory: async (path, mode) => (await get()).files.makeDirectory(path, mode),
      remove: async (path, options) => (await get()).files.remove(path, options),
      concatenate: async (path, sources, options) => (await get()).files.concatenate(path, sources, options),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.[Symbol.asyncDispose]();
  }
}
