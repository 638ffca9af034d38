// A test sandbox as a program of its own, on a guest and a directory that outlive it: killed at any moment, started again, measured.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type RunningGuest, type StartOptions, startGuest } from "../guest/start-guest.ts";
import type { ServeOptions } from "./harness.ts";

const startMaxMs = 60_000;

export type SpawnOptions = { guest?: StartOptions; serve?: ServeOptions };

export class SpawnedSandbox implements AsyncDisposable {
  readonly directory: string = mkdtempSync(join(tmpdir(), "spawned-sandbox-"));
  /** How often the daemon was killed and has died of it. */
  kills = 0;
  readonly #options: SpawnOptions;
  #guest: RunningGuest;
  #startCount = 0;
  #daemon: ChildProcess | undefined;
  #port = 0;
  #up = Promise.withResolvers<void>();

  private constructor(guest: RunningGuest, options: SpawnOptions) {
    this.#guest = guest;
    this.#options = { ...options };
  }

  static async start(options: SpawnOptions = {}): Promise<SpawnedSandbox> {
    const sandbox = new SpawnedSandbox(await startGuest(options.guest), options);
    try {
      await sandbox.start();
      return sandbox;
    } catch (error) {
      await sandbox[Symbol.asyncDispose]();
      throw error;
    }
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get workingDir(): string {
    return join(this.directory, "work");
  }

  /** Where the parts of its uploads lie. */
  get multipartRoot(): string {
    return join(this.directory, "multipart-uploads");
  }

  get daemonPid(): number {
    return this.#daemon!.pid!;
  }

  /** Resolves when a daemon serves; a request that found none waits for it instead of asking again and again. */
  untilUp(): Promise<void> {
    return withDeadline(this.#up.promise, startMaxMs, "no daemon came up again");
  }

  async start(): Promise<void> {
    const program = join(import.meta.dirname, "sandbox-process.ts");
    const options = JSON.stringify({ ...this.#options.serve, startCount: this.#startCount });
    const daemon = spawn(process.execPath, [program, this.directory, this.#guest.socketPath, options], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#daemon = daemon;
    const line = once(createInterface({ input: daemon.stdout! }), "line") as Promise<[string]>;
    const died = once(daemon, "exit").then(([code]) => assert.fail(`the daemon ended with ${code} while it started`));
    const [text] = await withDeadline(Promise.race([line, died]), startMaxMs, "the daemon does not start");
    died.catch(() => undefined);
    this.#port = (JSON.parse(text) as { port: number }).port;
    this.#up.resolve();
  }

  /** Leaves no daemon behind. */
  async kill(): Promise<void> {
    this.#up = Promise.withResolvers<void>();
    const daemon = this.#daemon!;
    assert.deepEqual([daemon.exitCode, daemon.signalCode], [null, null], "the daemon had ended by itself");
    const exited = once(daemon, "exit");
    daemon.kill("SIGKILL");
    await withDeadline(exited, startMaxMs, "the daemon does not die");
    assert.equal(daemon.signalCode, "SIGKILL");
    this.kills += 1;
  }

  /** What is given replaces the options it was served with before. */
  async restart(serve: ServeOptions = {}): Promise<void> {
    await this.kill();
    this.#options.serve = { ...this.#options.serve, ...serve };
    await this.start();
  }

  /** The whole machine goes, with everything that runs in it, and another one is started. */
  async replaceMachine(): Promise<void> {
    await this.kill();
    await this.#guest[Symbol.asyncDispose]();
    this.#guest = await startGuest(this.#options.guest);
    this.#startCount += 1;
    await this.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const daemon = this.#daemon;
    if (daemon !== undefined && daemon.exitCode === null && daemon.signalCode === null) {
      const exited = once(daemon, "exit");
      daemon.kill("SIGKILL");
      await exited;
    }
    await this.#guest[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export async function withDeadline<Result>(work: Promise<Result>, timeoutMs: number, message: string): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${message} (waited ${timeoutMs} ms)`)), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
