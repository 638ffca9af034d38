// The place where an instance's guest connection comes and goes while everyone above holds one stable `Guest`.
import type { Duplex } from "node:stream";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type {
  Guest,
  GuestFiles,
  GuestProcess,
  GuestTrees,
  InitUpgrade,
  ProcessSink,
  SocketInfo,
  SpawnRequest,
  StdinOptions,
  TerminalSize,
} from "../../sandbox-api/machine.ts";
import type { DeathCauses } from "./death-causes.ts";

/** A connection to one incarnation of the init; disposing it closes the host's side only. */
export type GuestConnection = Guest &
  AsyncDisposable & {
    attach(receiver: GuestReceiver): Promise<void>;
    upgrade(binary: Buffer): Promise<InitUpgrade>;
    ping(patience: { timeoutMs: number }): Promise<void>;
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
  /** Told of every process that is started or signalled through the slot. */
  causes?: DeathCauses;
  /** Makes the slot connected, e.g. after the daemon restarted and nobody asked yet. */
  ready: () => Promise<void>;
};

export class GuestSlot implements Guest, AsyncDisposable {
  readonly #options: GuestSlotOptions;
  #connection: GuestConnection | undefined;
  #connecting: GuestConnection | undefined;
  #receiver: GuestReceiver | undefined;
  #isDisposed = false;

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
    const { openGuest, socketPath, log, onLost } = this.#options;
    let lost: string | undefined;
    const options = {
      socketPath: socketPath(),
      log,
      onLost: (reason: string) => {
        lost = reason;
        if (this.#connection === connection) this.lost(reason);
      },
    };
    const connection = await openGuest(options).catch((error: unknown) => {
      if (nobodyListens(error)) onLost("nobody listens in its place");
      throw error;
    });
    try {
      await this.adopt(connection);
    } catch (error) {
      await connection[Symbol.asyncDispose]();
      if (lost !== undefined) onLost(lost);
      throw error;
    }
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
    this.#connecting = connection;
    try {
      if (this.#isDisposed) throw notReachable();
      if (this.#receiver !== undefined) await connection.attach(this.#receiver);
    } finally {
      this.#connecting = undefined;
    }
    if (this.#isDisposed) throw notReachable();
    this.#connection = connection;
  }

  async #get(): Promise<GuestConnection> {
    if (this.#connection === undefined) await this.#options.ready();
    if (this.#connection === undefined) throw notReachable();
    return this.#connection;
  }

  async spawn(request: SpawnRequest, signal?: AbortSignal): Promise<{ pid: number }> {
    const connection = this.#connection ?? (await this.#get());
    this.#options.causes?.started(request.token);
    try {
      return await connection.spawn(request, signal);
    } catch (error) {
      throw this.#options.causes?.explainRefusal(error) ?? error;
    }
  }

  async signal(token: string, signal: number): Promise<void> {
    const connection = this.#connection ?? (await this.#get());
    this.#options.causes?.signalled(token, signal);
    return connection.signal(token, signal);
  }

  async writeStdin(token: string, bytes: Buffer, options?: StdinOptions): Promise<{ taken: number }> {
    return (this.#connection ?? (await this.#get())).writeStdin(token, bytes, options);
  }

  async closeStdin(token: string, options?: StdinOptions): Promise<void> {
    return (this.#connection ?? (await this.#get())).closeStdin(token, options);
  }

  async resizeTerminal(token: string, size: TerminalSize): Promise<void> {
    return (this.#connection ?? (await this.#get())).resizeTerminal(token, size);
  }

  async upgrade(binary: Buffer): Promise<InitUpgrade> {
    return (this.#connection ?? (await this.#get())).upgrade(binary);
  }

  /** Resolves when the init has answered; at once without a connection. */
  async ping(patience: { timeoutMs: number }): Promise<void> {
    await this.#connection?.ping(patience);
  }

  async connect(port: number, signal?: AbortSignal): Promise<Duplex> {
    return (this.#connection ?? (await this.#get())).connect(port, signal);
  }

  async connectTo(host: string, port: number, signal?: AbortSignal): Promise<Duplex> {
    return (this.#connection ?? (await this.#get())).connectTo(host, port, signal);
  }

  get files(): GuestFiles {
    const get = () => this.#get();
    return {
      stat: async (path) => (await get()).files.stat(path),
      list: async (path, entriesMax) => (await get()).files.list(path, entriesMax),
      read: async (path, range) => (await get()).files.read(path, range),
      write: async (path, body, options) => (await get()).files.write(path, body, options),
      setMode: async (path, mode) => (await get()).files.setMode(path, mode),
      makeDirectory: async (path, mode) => (await get()).files.makeDirectory(path, mode),
      remove: async (path, options) => (await get()).files.remove(path, options),
      concatenate: async (path, sources, options) => (await get()).files.concatenate(path, sources, options),
    };
  }

  get trees(): GuestTrees {
    const get = () => this.#get();
    return {
      async *walk(path, options, signal) {
        yield* (await get()).trees.walk(path, options, signal);
      },
      watch: async (path, options) => (await get()).trees.watch(path, options),
    };
  }

  async sockets(pid?: number): Promise<SocketInfo[]> {
    return (this.#connection ?? (await this.#get())).sockets(pid);
  }

  /** Final: what is being opened meanwhile is closed, too. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    const connections = [this.#connection, this.#connecting];
    this.#connection = undefined;
    for (const connection of connections) await connection?.[Symbol.asyncDispose]();
  }
}

/** Only then is an init certainly gone: one that is slow, or a daemon short of descriptors, looks like anything else. */
function nobodyListens(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  return code === "ECONNREFUSED" || code === "ENOENT";
}

function notReachable(): AppError {
  return new AppError("unavailable", "The sandbox's init is not reachable at this moment; try again.");
}
