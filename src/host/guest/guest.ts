// Opens a connection to the init of an instance and offers it as the `Guest` the sandbox API works with.
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "../../core/log.ts";
import type {
  Guest,
  GuestFiles,
  GuestTrees,
  InitUpgrade,
  SocketInfo,
  SpawnRequest,
  StdinOptions,
  TerminalSize,
} from "../../sandbox-api/machine.ts";
import type { Patience } from "./answers.ts";
import { type Attachment, ControlConnection } from "./control.ts";
import { deferWithDeadline } from "./deadline.ts";
import { dialControl, type Receiver } from "./dial.ts";
import { FileWorkers } from "./file-workers.ts";
import { ConnectedFiles } from "./files.ts";
import { checkHello, FrameReader } from "./frames.ts";
import { GuestProtocolError, unavailable } from "./guest-errors.ts";
import { answerPayloadMax, connectionKind, helloBytes } from "./protocol.ts";
import { ConnectedTrees } from "./trees.ts";
import { openTunnel, type TunnelTarget } from "./tunnel.ts";
import { unintelligible } from "./worker-link.ts";

export type OpenGuestOptions = {
  socketPath: string;
  log: Logger;
  connectTimeoutMs?: number;
  /** Told once when the guest is gone or broke the protocol; not when the connection is disposed. */
  onLost: (reason: string) => void;
};

/** A connection to one incarnation of the init; disposing it closes the host's side only. */
export class GuestConnection implements Guest, AsyncDisposable {
  readonly files: GuestFiles;
  readonly trees: GuestTrees;
  readonly #socketPath: string;
  readonly #control: ControlConnection;
  readonly #workers: FileWorkers;
  readonly #sockets: (pid: number | undefined) => Promise<SocketInfo[]>;

  constructor(
    options: OpenGuestOptions & { socket: Socket; receiver: Receiver; reader: FrameReader; revision: number },
  ) {
    const { socketPath } = options;
    this.#socketPath = socketPath;
    this.#control = new ControlConnection(options);
    const worker = { socketPath, onViolation: (error: GuestProtocolError) => this.#violated(error) };
    this.#workers = new FileWorkers({ socketPath, isAble: () => this.#control.knows("keptWorkers") });
    this.files = new ConnectedFiles({
      workers: this.#workers,
      onViolation: worker.onViolation,
      require: (ability) => this.#control.require(ability),
    });
    const trees = new ConnectedTrees(worker);
    this.trees = trees;
    this.#sockets = (pid) => trees.sockets(pid);
  }

  spawn(request: SpawnRequest, signal?: AbortSignal): Promise<{ pid: number }> {
    return this.#control.spawn(request, signal);
  }

  signal(token: string, signal: number): Promise<void> {
    return this.#control.signal(token, signal);
  }

  writeStdin(token: string, bytes: Buffer, options: StdinOptions = {}): Promise<{ taken: number }> {
    return this.#control.inputs.write(token, bytes, options);
  }

  async closeStdin(token: string, options: StdinOptions = {}): Promise<void> {
    await this.#control.inputs.write(token, Buffer.alloc(0), { ...options, last: true });
  }

  resizeTerminal(token: string, size: TerminalSize): Promise<void> {
    return this.#control.inputs.resize(token, size);
  }

  /** Replaces the init by another build of it; `unprocessable` with `details.step` when that was refused. */
  async upgrade(binary: Buffer): Promise<InitUpgrade> {
    const upgraded = await this.#control.upgrade(binary);
    this.#workers.drop();
    return upgraded;
  }

  sockets(pid?: number): Promise<SocketInfo[]> {
    return this.#sockets(pid);
  }

  /** Resolves when the init has answered. */
  ping(patience?: Patience): Promise<void> {
    return this.#control.ping(patience);
  }

  connect(port: number, signal?: AbortSignal): Promise<Duplex> {
    return this.#openTunnel({ port }, signal);
  }

  async connectTo(host: string, port: number, signal?: AbortSignal): Promise<Duplex> {
    this.#control.require("connectTo");
    return this.#openTunnel({ host, port }, signal);
  }

  /** Takes over the guest's processes: the list first, then their output and ends. Once in a connection's life. */
  attach(attachment: Attachment): Promise<void> {
    return this.#control.attach(attachment);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#workers.drop();
    this.#control.close("the connection was closed");
    await this.#control.settled();
  }

  async #openTunnel(target: TunnelTarget, signal?: AbortSignal): Promise<Duplex> {
    try {
      return await openTunnel(this.#socketPath, target, signal);
    } catch (error) {
      if (!(error instanceof GuestProtocolError)) throw error;
      this.#violated(error);
      throw unintelligible(error);
    }
  }

  #violated(error: GuestProtocolError): void {
    this.#control.fail(`the init broke the protocol: ${error.message}`);
  }
}

/** Resolves once the guest has answered the hello. */
export async function openGuest(options: OpenGuestOptions): Promise<GuestConnection> {
  const receiver: Receiver = { receive: () => undefined };
  const socket = dialControl(options.socketPath, receiver);
  const reader = new FrameReader(answerPayloadMax);
  let revision: number;
  try {
    revision = await receiveHello({ socket, receiver, reader }, options.connectTimeoutMs ?? 10_000);
  } catch (error) {
    socket.destroy();
    if (error instanceof GuestProtocolError) throw unavailable(error.message, error);
    throw error;
  }
  return new GuestConnection({ ...options, socket, receiver, reader, revision });
}

/** The init's revision. */
async function receiveHello(
  { socket, receiver, reader }: { socket: Socket; receiver: Receiver; reader: FrameReader },
  timeoutMs: number,
): Promise<number> {
  const received = deferWithDeadline<number>({ timeoutMs, what: "Connecting to the sandbox's init" });
  receiver.receive = (piece) => {
    try {
      reader.push(Buffer.from(piece));
      const hello = reader.takeBytes(helloBytes);
      if (hello === undefined) return;
      const revision = checkHello(hello, connectionKind.control);
      socket.pause();
      received.resolve(revision);
    } catch (error) {
      received.reject(error);
    }
  };
  const onError = (error: Error): void => received.reject(unavailable("nothing listens there", error));
  const onClose = (): void => received.reject(unavailable("it closed the connection"));
  socket.on("error", onError).on("end", onClose).on("close", onClose).resume();
  try {
    return await received.promise;
  } finally {
    socket.off("end", onClose).off("close", onClose).off("error", onError);
    // Until the connection's own listeners are there, an error must not be thrown.
    socket.on("error", () => undefined);
  }
}
