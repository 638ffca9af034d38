// One WebSocket of a terminal: what it sends is checked and waits its turn, what it does not take is bounded.
import { Compile } from "typebox/compile";
import type { RawData, WebSocket } from "ws";
import { TerminalMessage } from "../../contract/sandbox-api/terminal.ts";
import type { TerminalSize } from "../machine.ts";

/** A client that has this much to take is waited for. */
const backlogHighBytes = 256 * 1024;
const backlogLowBytes = 64 * 1024;
/** Input that the shell has not taken. */
const inputMaxBytes = 512 * 1024;
const drainPollMs = 20;
const closeTimeoutMs = 2_000;
const normalClosure = 1_000;
const policyViolation = 1_008;
const tryAgainLater = 1_013;

const validator = Compile(TerminalMessage);

export type ClientEvents = {
  /** Resolves once the shell has taken it. */
  onInput(client: TerminalClient, bytes: Buffer): Promise<void>;
  onResize(size: Partial<TerminalSize>): void;
  onClosed(client: TerminalClient): void;
};

export class TerminalClient {
  readonly #socket: WebSocket;
  readonly #events: ClientEvents;
  #input: Buffer[] = [];
  #inputBytes = 0;
  #isPumping = false;
  #isClosing = false;
  #isAlive = true;

  constructor(socket: WebSocket, events: ClientEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    socket.on("pong", () => {
      this.#isAlive = true;
    });
    // The library closes with the fitting code; nobody else has to know.
    socket.on("error", () => undefined);
    socket.once("close", () => {
      this.#isClosing = true;
      this.#input = [];
      events.onClosed(this);
    });
  }

  output(data: string): void {
    this.#send({ type: "output", data });
  }

  error(data: string, more: { exitCode?: number } = {}): void {
    this.#send({ type: "error", data, ...more });
  }

  /** Waits until it has taken most of what was sent; one that does not in time is dropped: it must not stall the shell. */
  async drained(maxMs: number): Promise<void> {
    if (this.#socket.bufferedAmount <= backlogHighBytes) return;
    const deadline = performance.now() + maxMs;
    while (!this.#isClosing && this.#socket.bufferedAmount > backlogLowBytes) {
      if (performance.now() >= deadline)
        return this.close(tryAgainLater, "too slow: connect again for the newest output");
      await new Promise((resolve) => setTimeout(resolve, drainPollMs));
    }
  }

  /** Drops one whose other side has gone without a word; called from time to time. */
  checkAlive(): void {
    if (!this.#isAlive) return this.#socket.terminate();
    this.#isAlive = false;
    if (!this.#isClosing) this.#socket.ping();
  }

  close(code = normalClosure, reason = ""): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#socket.close(code, reason);
    const timer = setTimeout(() => this.#socket.terminate(), closeTimeoutMs);
    this.#socket.once("close", () => clearTimeout(timer));
    this.#events.onClosed(this);
  }

  #send(message: object): void {
    if (!this.#isClosing) this.#socket.send(JSON.stringify(message));
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#isClosing) return;
    const message = isBinary ? undefined : parse(data.toString());
    if (message === undefined) {
      return this.close(policyViolation, "a message is JSON: {type: input | resize, data, cols, rows}");
    }
    if (message.type === "resize") return this.#events.onResize({ columns: message.cols, rows: message.rows });
    if (message.data === undefined || message.data === "") return;
    const bytes = Buffer.from(message.data, "utf8");
    this.#inputBytes += bytes.length;
    if (this.#inputBytes > inputMaxBytes) return this.close(policyViolation, "more input than the shell takes");
    this.#input.push(bytes);
    void this.#pump();
  }

  /** What comes meanwhile goes as one piece; a shell that does not read stops the connection, not the platform. */
  async #pump(): Promise<void> {
    if (this.#isPumping) return;
    this.#isPumping = true;
    while (this.#input.length > 0) {
      const bytes = Buffer.concat(this.#input);
      this.#input = [];
      this.#socket.pause();
      await this.#events.onInput(this, bytes).catch(() => undefined);
      this.#inputBytes -= bytes.length;
      this.#socket.resume();
    }
    this.#isPumping = false;
  }
}

function parse(text: string): { type: "input" | "resize"; data?: string; cols?: number; rows?: number } | undefined {
  try {
    const message: unknown = JSON.parse(text);
    return validator.Check(message) ? message : undefined;
  } catch {
    return undefined;
  }
}
