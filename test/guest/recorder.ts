// A sink that remembers what processes wrote and how they ended, and refuses what a guest must never deliver.
import assert from "node:assert/strict";
import type { GuestProcess, OutputStream, ProcessEnd, ProcessSink } from "../../src/sandbox-api/machine.ts";
import { eventually } from "../eventually.ts";

type Recording = { stdout: Buffer[]; stderr: Buffer[]; length: { stdout: number; stderr: number }; end?: ProcessEnd };

export class Recorder implements ProcessSink {
  processes: readonly GuestProcess[] = [];
  /** What the guest must not have delivered; a sink that threw would only be asked again. */
  readonly problems: string[] = [];
  readonly #records = new Map<string, Recording>();
  /** Awaited before anything of a token is taken. */
  readonly gates = new Map<string, Promise<void>>();

  readonly onConnected = async (processes: readonly GuestProcess[]): Promise<void> => {
    this.processes = processes;
  };

  get attachment(): { sink: ProcessSink; onConnected: (processes: readonly GuestProcess[]) => Promise<void> } {
    return { sink: this, onConnected: this.onConnected };
  }

  async output(token: string, stream: OutputStream, offset: number, chunk: Buffer): Promise<void> {
    const record = this.#record(token);
    if (record.end !== undefined) this.problems.push(`${token}: output after its end`);
    await this.gates.get(token);
    if (offset !== record.length[stream]) this.problems.push(`${token}: ${offset} after ${record.length[stream]}`);
    record[stream].push(Buffer.from(chunk));
    record.length[stream] += chunk.length;
  }

  async exit(token: string, end: ProcessEnd): Promise<void> {
    await this.gates.get(token);
    const record = this.#record(token);
    if (record.end !== undefined) this.problems.push(`${token}: a second end`);
    record.end = end;
  }

  text(token: string, stream: OutputStream = "stdout"): string {
    return this.bytes(token, stream).toString();
  }

  bytes(token: string, stream: OutputStream = "stdout"): Buffer {
    return Buffer.concat(this.#record(token)[stream]);
  }

  length(token: string, stream: OutputStream = "stdout"): number {
    return this.#record(token).length[stream];
  }

  hasEnded(token: string): boolean {
    return this.#records.get(token)?.end !== undefined;
  }

  async ended(token: string): Promise<ProcessEnd> {
    await eventually(() => assert.ok(this.hasEnded(token), `${token} has not ended`), { intervalMs: 2 });
    assert.deepEqual(this.problems, []);
    return this.#record(token).end!;
  }

  #record(token: string): Recording {
    let record = this.#records.get(token);
    if (record === undefined) {
      record = { stdout: [], stderr: [], length: { stdout: 0, stderr: 0 } };
      this.#records.set(token, record);
    }
    return record;
  }
}
