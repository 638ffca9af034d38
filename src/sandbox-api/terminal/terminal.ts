// One shell on a terminal: who is connected to it, what it shows, what it is given. The terminal itself lives inside, with the init.
import { StringDecoder } from "node:string_decoder";
import type { WebSocket } from "ws";
import { terminalReplayBytes } from "../../contract/sandbox-api/terminal.ts";
import { AppError, toAppError } from "../../core/errors.ts";
import type { Machine, ProcessEnd, TerminalSize } from "../machine.ts";
import { Replay } from "./replay.ts";
import { TerminalClient } from "./terminal-client.ts";

const clientsMax = 16;
/** How long output waits for a client that does not take it: less when it keeps others waiting. */
const patienceMs = { alone: 10_000, shared: 2_000 };
const touchIntervalMs = 1_000;
const killGraceMs = 5_000;
const sigkill = 9;
const serviceRestart = 1_012;

export class Terminal {
  readonly token: string;
  readonly #machine: Machine;
  readonly #onEnded: () => void;
  readonly #clients = new Set<TerminalClient>();
  readonly #decoder = new StringDecoder("utf8");
  readonly #replay = new Replay(terminalReplayBytes);
  /** Bytes of its output that were received; undefined until the first after a daemon began. */
  #received: number | undefined;
  #size: TerminalSize;
  #wantedSize: TerminalSize | undefined;
  #isResizing = false;
  #inputTurn: Promise<void> = Promise.resolve();
  #touchedAt = 0;
  #hasEnded = false;
  idleMs = 0;

  constructor(token: string, machine: Machine, size: TerminalSize, onEnded: () => void) {
    this.token = token;
    this.#machine = machine;
    this.#size = size;
    this.#onEnded = onEnded;
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  checkRoom(): void {
    if (this.#clients.size < clientsMax) return;
    throw new AppError("rate_limited", `At most ${clientsMax} connections share a terminal.`);
  }

  /** It gets what was shown before and everything from now on: nothing can come in between. */
  connect(socket: WebSocket, size: Partial<TerminalSize>): void {
    const client = new TerminalClient(socket, {
      onInput: (from, bytes) => this.#write(from, bytes),
      onResize: (wanted) => this.resize(wanted),
      onClosed: (closed) => {
        this.#clients.delete(closed);
        this.idleMs = 0;
      },
    });
    this.#touch();
    if (this.#hasEnded) return client.close();
    const shown = this.#replay.text();
    if (shown !== "") client.output(shown);
    this.#clients.add(client);
    this.resize(size);
  }

  /** Resolves when the bytes may be acknowledged: they are kept, and who is connected has room for more. */
  async output(offset: number, chunk: Buffer): Promise<void> {
    const known = (this.#received ?? offset) - offset;
    // After a daemon began the first byte may stand inside a character.
    const skipped = this.#received === undefined && offset > 0 ? countContinuing(chunk) : 0;
    if (known < chunk.length) {
      this.#received = offset + chunk.length;
      this.#show(this.#decoder.write(chunk.subarray(Math.max(known, skipped))));
    }
    const maxMs = this.#clients.size > 1 ? patienceMs.shared : patienceMs.alone;
    await Promise.all([...this.#clients].map((client) => client.drained(maxMs)));
  }

  /** Of several sizes that come fast, the last counts. */
  resize({ columns, rows }: Partial<TerminalSize>): void {
    this.#wantedSize = { columns: columns ?? this.#size.columns, rows: rows ?? this.#size.rows };
    if (!this.#isResizing) void this.#applySizes();
  }

  ended(end: ProcessEnd | undefined): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#show(this.#decoder.end());
    const exitCode = end === undefined ? undefined : "code" in end ? end.code : 128 + end.signal;
    for (const client of [...this.#clients]) {
      if (exitCode === undefined) {
        client.error("The sandbox was started again; this shell is gone.");
        client.close(serviceRestart, "the shell is gone");
      } else {
        client.error(`The shell has ended with exit code ${exitCode}.`, { exitCode });
        client.close(undefined, `exit code ${exitCode}`);
      }
    }
    this.#onEnded();
  }

  /** Hangs it up, as a modem would, and kills what stays. */
  async hangUp(): Promise<void> {
    const { guest } = this.#machine;
    await guest.closeStdin(this.token).catch(() => undefined);
    setTimeout(() => {
      if (!this.#hasEnded) guest.signal(this.token, sigkill).catch(() => undefined);
    }, killGraceMs).unref();
  }

  checkAlive(): void {
    for (const client of [...this.#clients]) client.checkAlive();
  }

  /** Connections end with the daemon that holds them; the shell goes on. */
  disconnect(reason: string): void {
    for (const client of [...this.#clients]) client.close(serviceRestart, reason);
  }

  #show(text: string): void {
    if (text === "") return;
    this.idleMs = 0;
    this.#replay.append(text);
    if (this.#clients.size > 0) this.#touch();
    for (const client of this.#clients) client.output(text);
  }

  /** Pieces of one client stay together, and nobody's overtakes another's. */
  #write(from: TerminalClient, bytes: Buffer): Promise<void> {
    this.idleMs = 0;
    this.#machine.touch();
    const turn = this.#inputTurn.then(async () => {
      if (this.#hasEnded) return;
      await this.#machine.guest.writeStdin(this.token, bytes);
    });
    this.#inputTurn = turn.catch(() => undefined);
    return turn.catch((error: unknown) => {
      if (!this.#hasEnded) from.error(`The shell did not take the input: ${toAppError(error).message}`);
    });
  }

  async #applySizes(): Promise<void> {
    this.#isResizing = true;
    while (this.#wantedSize !== undefined && !this.#hasEnded) {
      const wanted = this.#wantedSize;
      this.#wantedSize = undefined;
      if (wanted.columns === this.#size.columns && wanted.rows === this.#size.rows) continue;
      const isApplied = await this.#machine.guest.resizeTerminal(this.token, wanted).then(
        () => true,
        () => false,
      );
      if (isApplied) this.#size = wanted;
    }
    this.#isResizing = false;
  }

  #touch(): void {
    const now = performance.now();
    if (now - this.#touchedAt < touchIntervalMs) return;
    this.#touchedAt = now;
    this.#machine.touch();
  }
}

function countContinuing(chunk: Buffer): number {
  let count = 0;
  while (count < 3 && count < chunk.length && (chunk[count]! & 0xc0) === 0x80) count += 1;
  return count;
}
