// What the sandbox API needs from the instance it serves. The host implements these; nothing here knows how.
import type { Duplex, Readable } from "node:stream";
import type { SealKey } from "../core/seal.ts";

/** One running instance as the sandbox API sees it. */
export interface Machine {
  readonly instanceId: string;
  readonly workspace: string;
  readonly sandboxName: string;
  /** Directory on the host, private to this instance, for process records, logs and upload sessions. */
  readonly stateDir: string;
  /** Environment of every process, before the request's own variables. */
  readonly environment: Readonly<Record<string, string>>;
  /** Absolute directory that relative paths start from, `/blaxel` in platform images. */
  readonly workingDir: string;
  readonly homeDir: string;
  /** Path inside the sandbox of the program that searches contents (ripgrep). */
  readonly searchProgram: string;
  readonly guest: Guest;
  /** Seals what the state directory keeps of callers' secrets; the same for the whole life of the instance. */
  readonly stateKey: SealKey;
  /** How often the instance was started: with another number, everything that ran before is gone. */
  readonly startCount: number;
  /**
   * Replaces the init inside by another build of it, without disturbing what runs. Rejects with `unprocessable` and `details.step`
   * (`validate` or `replace`) when the binary is not fit or cannot take over: the one that was there goes on then. Settles when the init
   * has answered or is gone, however long that takes; the caller keeps the instance awake as long as it likes.
   */
  upgrade(binary: Buffer): Promise<InitUpgrade>;
  /** How often `upgrade` has succeeded, over all daemons. */
  readonly upgradeCount: number;
  /** SHA-256 of the init that runs, in hexadecimal digits. */
  readonly initDigest: string;
  /** Keeps the instance awake until disposed: one per running `keepAlive` process. */
  holdAwake(): Disposable;
  /** An open connection that reports its activity (activity.ts) carried something: keeps the instance awake for a while, and wakes it. */
  touch(): void;
  /** Whether nobody inside hears or answers at this moment. */
  readonly isAsleep: boolean;
}

/** Versions of the init: the beginning of a digest each. */
export type InitUpgrade = { from: string; to: string };

/** The init inside an instance. Calls wait for a connection (bounded) and reject with an AppError. */
export interface Guest {
  /** Starts a program in its own process group; resolves once the kernel has executed it. `unprocessable` when it cannot. */
  spawn(request: SpawnRequest, signal?: AbortSignal): Promise<{ pid: number }>;
  /** Sends a signal (its number) to the process group; `not_found` when the process has ended. */
  signal(token: string, signal: number): Promise<void>;
  /**
   * Hands bytes to the process; resolves once its pipe or terminal has taken all of them, with how many it was given in all.
   * Writes to one process go one after the other. `offset` is the place of the first byte, counted from the process' beginning:
   * bytes before what was taken are skipped, so a write may be repeated; without it they go to the end. `not_found` when the process
   * has ended; `unprocessable` with EPIPE when nobody reads any more, EBADF when it has no such input, EINVAL when `offset` leaves a gap;
   * `timeout` when it does not read for long. `details.taken` says then how much was taken.
   */
  writeStdin(token: string, bytes: Buffer, options?: StdinOptions): Promise<{ taken: number }>;
  /** After this the program reads the end of its input; a terminal is hung up. Repeating it is no error. */
  closeStdin(token: string, options?: StdinOptions): Promise<void>;
  resizeTerminal(token: string, size: TerminalSize): Promise<void>;
  readonly files: GuestFiles;
  readonly trees: GuestTrees;
  /** Sockets of the sandbox's network, of one process and its descendants when a pid is given, and who holds them. */
  sockets(pid?: number): Promise<SocketInfo[]>;
  /** A byte stream to a TCP port inside, tried on 127.0.0.1, then ::1, then the sandbox's own address. `upstream_failed` when nothing listens. */
  connect(port: number, signal?: AbortSignal): Promise<Duplex>;
  /**
   * The same to any name or address, as a program inside would reach it: its names, its routes, and what its packet filter refuses is
   * refused. `upstream_failed` when nothing answers; `unprocessable` by an init of an earlier version.
   */
  connectTo(host: string, port: number, signal?: AbortSignal): Promise<Duplex>;
}

export type SpawnRequest = {
  /** Chosen by the caller, `[a-z0-9]{1,32}`; spawning a token twice starts one process. */
  token: string;
  argv: readonly string[];
  workingDir: string;
  environment: Readonly<Record<string, string>>;
  /** `pipe`: writeStdin says what it reads. Without, it reads /dev/null. */
  stdin?: "pipe";
  /** It lives on a terminal of this size, which is its input and, as the one stream `stdout`, its output; the caller sets TERM. */
  terminal?: TerminalSize;
};

/** 1 to 65,535 each. */
export type TerminalSize = { columns: number; rows: number };

export type StdinOptions = { offset?: number; signal?: AbortSignal };

/** How a process ended, as observed by the init that reaped it. */
export type ProcessEnd = ({ code: number } | { signal: number }) & {
  /** The kernel killed for want of memory while it ran, and it died of a SIGKILL nobody asked for here, or as a shell says that a child did. */
  outOfMemory?: true;
  /** It failed, and while it ran the sandbox's processes had come to this limit, at which programs are refused another one. */
  processLimit?: number;
};

/** A process the guest still knows: running, or ended and not yet acknowledged. */
export type GuestProcess = {
  token: string;
  pid: number;
  end: ProcessEnd | undefined;
  /** Of one started with a pipe or a terminal. */
  stdin?: { isTerminal: boolean; isOpen: boolean; taken: number };
};

export type OutputStream = "stdout" | "stderr";

/**
 * Receives what processes write and how they end. Delivery is at least once: `offset` counts the bytes of that stream since
 * the process began, so a receiver that kept its length skips what it has. The guest forgets bytes and ends only after the
 * returned promise fulfils, which also is the back-pressure: a process blocks once its window (64 KiB to 1 MiB) is unacknowledged.
 */
export interface ProcessSink {
  /** The chunk's memory is used for something else once the promise has settled. */
  output(token: string, stream: OutputStream, offset: number, chunk: Buffer): Promise<void>;
  /** Resolves when more output of the process is wanted; asked between an output and its acknowledgement. Absent: always. */
  pace?(token: string): Promise<void>;
  /** Comes after the last output, exactly once per successful acknowledgement. */
  exit(token: string, end: ProcessEnd): Promise<void>;
}

export type FileType = "file" | "directory" | "symlink" | "other";

export type FileInfo = {
  /** Last segment of the path. */
  name: string;
  type: FileType;
  sizeBytes: number;
  /** Permission bits only, e.g. 0o644. */
  mode: number;
  uid: number;
  gid: number;
  /** Names from the sandbox's own /etc/passwd and /etc/group, else the numbers as text. */
  owner: string;
  group: string;
  modifiedAtMs: number;
};

/**
 * Files inside the sandbox; every path is absolute and resolved by the sandbox's own kernel view. Failures reject with an AppError
 * whose `details.errno` is the symbolic errno: ENOENT is `not_found`, EEXIST `already_exists`, everything else `unprocessable`.
 */
export interface GuestFiles {
  stat(path: string): Promise<FileInfo>;
  /** Entries in name order; `unprocessable` (EOVERFLOW) above `entriesMax`. */
  list(path: string, entriesMax?: number): Promise<FileInfo[]>;
  /** A regular file's bytes from `offset`, at most `length`; `info.sizeBytes` is the whole file's. The body fails if the file shrinks meanwhile. */
  read(path: string, range?: { offset: number; length?: number }): Promise<{ info: FileInfo; body: Readable }>;
  /** Creates parents, writes beside the target and publishes by rename: a failed or aborted body leaves the old file as it was. */
  write(path: string, body: Readable | Buffer, options?: { mode?: number; signal?: AbortSignal }): Promise<FileInfo>;
  /** Changes permission bits alone, of the file a link leads to. */
  setMode(path: string, mode: number): Promise<FileInfo>;
  makeDirectory(path: string, mode?: number): Promise<void>;
  /** Refuses a directory with entries (ENOTEMPTY) unless `recursive`. */
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  /** Publishes the concatenation of `sources` at `path` by rename, then removes the sources. The sources may be many. */
  concatenate(path: string, sources: readonly string[], options?: { mode?: number }): Promise<FileInfo>;
}

export type FoundEntry = { /** Relative to where the walk began. */ path: string; type: FileType };

export type WalkOptions = {
  files: boolean;
  directories: boolean;
  /** Leaves out names that begin with a dot, and does not enter such directories. */
  skipHidden: boolean;
  /** Names of directories that are neither told nor entered. */
  excludeDirs: readonly string[];
  entriesMax: number;
};

/** `overflow`: changes at or below the path may be missing. */
export type ChangeKind = "create" | "write" | "remove" | "rename" | "chmod" | "overflow";

/** `path` is relative to what is watched, and empty for that itself. */
export type Change = { kind: ChangeKind; path: string; isDirectory: boolean };

/** Whole trees inside the sandbox; links in them are not followed. Failures as those of GuestFiles. */
export interface GuestTrees {
  /** What lies below a directory, a batch at a time and in no order; leaving the loop or aborting the signal ends the walk. Not into /proc and its like. */
  walk(path: string, options: WalkOptions, signal?: AbortSignal): AsyncIterable<FoundEntry[]>;
  /** Resolves once every later change will be told, in batches, until the signal is aborted or the guest is lost. */
  watch(path: string, options: { recursive: boolean; signal: AbortSignal }): Promise<AsyncIterable<Change[]>>;
}

export type SocketInfo = {
  /** Undefined when no process that holds it could be found. */
  pid: number | undefined;
  processName: string;
  protocol: "tcp" | "udp";
  /** As Linux names them, e.g. `LISTEN`. */
  state: string;
  localAddress: string;
  localPort: number;
  remoteAddress: string;
  remotePort: number;
};
