// The seam between a host and the sandbox API: one session per adopted instance, fed by the host with requests and guest events.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { GuestProcess, Machine, ProcessSink } from "./machine.ts";

/** The sandbox API of a host: one for all its instances. */
export interface SandboxApi extends AsyncDisposable {
  /** Loads what the instance's state directory holds and serves it until the session is disposed. */
  open(machine: Machine): Promise<SandboxSession>;
}

export interface SandboxSession extends AsyncDisposable {
  /** Where the host delivers process output and ends. */
  readonly sink: ProcessSink;
  /** Told after every (re)connection to the guest: what it still holds decides what became of recorded processes. */
  guestConnected(processes: readonly GuestProcess[]): Promise<void>;
  /** Told when the instance died or was restarted: its processes are gone, their exit codes were not observed. */
  guestLost(): Promise<void>;
  /** Serves one request whose `url` is relative to the sandbox's root (`/health`, `/process`, ...). The caller holds the instance awake. */
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Serves a connection upgrade (WebSocket through `/port/{n}`). */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}
