// Files inside a sandbox: each operation has a worker of the guest to itself while it lasts.
import type { Readable } from "node:stream";
import type { FileInfo, GuestFiles } from "../../sandbox-api/machine.ts";
import { deferWithDeadline } from "./deadline.ts";
import { FileBody } from "./file-body.ts";
import {
  decodeAttributes,
  decodeBody,
  decodeEntries,
  encodeConcatenate,
  encodeList,
  encodeMakeDirectory,
  encodeRead,
  encodeRemove,
  encodeSetMode,
  encodeStat,
  encodeWrite,
} from "./file-messages.ts";
import { dataFrames, endFrame, sendBody } from "./file-upload.ts";
import type { FileWorkers, Worker } from "./file-workers.ts";
import type { Frame } from "./frames.ts";
import { fileError, GuestProtocolError } from "./guest-errors.ts";
import { decodeFailed } from "./messages.ts";
import { type Ability, frameType } from "./protocol.ts";
import { Slots } from "./slots.ts";
import { unintelligible, type Wait, WorkerLink } from "./worker-link.ts";

const answerTimeoutMs = 30_000;
/** For work that grows with the number or size of files. */
const longTimeoutMs = 10 * 60_000;
/** How long a worker may leave a body where it is that is waited for. */
const stallTimeoutMs = 60_000;
/** Entries of a directory that are kept in memory at most, whatever a caller allows. */
const entriesLimit = 100_000;
/** With the workers that are kept and those for trees fewer than the guest's own limit, so that one host does not meet it. */
const slotLimits = {
  slots: 80,
  waitingMax: 1024,
  waitMs: 30_000,
  refusal: "Too many file operations are under way in this sandbox.",
};
/** A body of up to this size travels with its request. */
const smallBodyBytes = 128 * 1024;

type Call = { path: string; what: string };
type Asked = { worker: Worker; link: WorkerLink };

export class ConnectedFiles implements GuestFiles {
  readonly #workers: FileWorkers;
  readonly #onViolation: (error: GuestProtocolError) => void;
  readonly #require: (ability: Ability) => void;
  readonly #slots = new Slots(slotLimits);

  constructor(options: {
    workers: FileWorkers;
    onViolation: (error: GuestProtocolError) => void;
    require: (ability: Ability) => void;
  }) {
    this.#workers = options.workers;
    this.#onViolation = options.onViolation;
    this.#require = options.require;
  }

  async stat(path: string): Promise<FileInfo> {
    return this.#attributes({ path, what: "Looking at a file" }, encodeStat(path));
  }

  async list(path: string, entriesMax = entriesLimit): Promise<FileInfo[]> {
    const call = { path, what: "Listing a directory" };
    const most = Math.min(entriesMax, entriesLimit);
    const request = encodeList(path, most);
    return this.#exchange(request, async (link) => {
      const entries: FileInfo[] = [];
      const deadlineMs = performance.now() + longTimeoutMs;
      for (let isFirst = true; ; isFirst = false) {
        const timeoutMs = Math.min(answerTimeoutMs, Math.max(1, deadlineMs - performance.now()));
        const frame = await this.#next(link, call, { timeoutMs });
        if (frame.type === frameType.done) break;
        if (frame.type !== frameType.entries) throw new GuestProtocolError("a list has a frame that is no part of it");
        const more = decodeEntries(frame);
        // An empty directory has one: what is counted by entries could go on for ever with them.
        if (more.length === 0 && !isFirst) throw new GuestProtocolError("a list has an empty frame");
        entries.push(...more);
        if (entries.length > most) throw new GuestProtocolError("a list is longer than was allowed");
      }
      return entries.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    });
  }

  async read(
    path: string,
    range: { offset: number; length?: number } = { offset: 0 },
  ): Promise<{ info: FileInfo; body: Readable }> {
    const call = { path, what: "Opening a file" };
    const request = encodeRead(path, range.offset, range.length);
    const slot = await this.#slots.take();
    try {
      return await this.#guarded(() =>
        this.#ask(request, async ({ worker, link }) => {
          const frame = await this.#next(link, call, { timeoutMs: answerTimeoutMs });
          if (frame.type !== frameType.body) throw new GuestProtocolError("a file's answer is of another type");
          const { length, info } = decodeBody(frame);
          const { socket, rest } = link.release();
          const onClosed = (): void => slot[Symbol.dispose]();
          const onWhole = (): void => this.#workers.keep(worker);
          return {
            info,
            body: new FileBody({ socket, first: rest, lengthBytes: length, stallTimeoutMs, onWhole, onClosed }),
          };
        }),
      );
    } catch (error) {
      slot[Symbol.dispose]();
      throw error;
    }
  }

  async write(
    path: string,
    body: Readable | Buffer,
    { mode, signal }: { mode?: number; signal?: AbortSignal } = {},
  ): Promise<FileInfo> {
    const call = { path, what: "Writing a file" };
    const request = encodeWrite(path, mode);
    if (Buffer.isBuffer(body) && body.length <= smallBodyBytes) {
      const wait = { timeoutMs: answerTimeoutMs, signal };
      return this.#attributes(call, Buffer.concat([request, ...dataFrames(body), endFrame]), wait);
    }
    return this.#guarded(async () => {
      using _slot = await this.#slots.take(signal);
      using link = new WorkerLink(this.#workers.askNew(request).socket);
      // How long a stream takes is its reader's affair.
      const timeoutMs = Buffer.isBuffer(body) ? longTimeoutMs : undefined;
      const answer = this.#expect(link, call, frameType.attributes, { timeoutMs, signal });
      // When the body fails first, nobody asks for the answer any more.
      answer.catch(() => undefined);
      if (Buffer.isBuffer(body)) {
        for (const part of [...dataFrames(body), endFrame]) link.socket.write(part);
        return decodeAttributes(await answer);
      }
      using upload = sendBody(link.socket, body, stallTimeoutMs);
      // The answer may come first: the guest refuses a file it cannot write without reading all of it.
      await Promise.race([answer, upload.sent]);
      const published = deferWithDeadline<Frame>({ timeoutMs: longTimeoutMs, what: call.what });
      answer.then(published.resolve, published.reject);
      return decodeAttributes(await published.promise);
    });
  }

  async setMode(path: string, mode: number): Promise<FileInfo> {
    this.#require("setMode");
    return this.#attributes({ path, what: "Changing a file's mode" }, encodeSetMode(path, mode));
  }

  async makeDirectory(path: string, mode?: number): Promise<void> {
    const call = { path, what: "Making a directory" };
    await this.#exchange(encodeMakeDirectory(path, mode), (link) =>
      this.#expect(link, call, frameType.done, { timeoutMs: answerTimeoutMs }),
    );
  }

  async remove(path: string, { recursive = false }: { recursive?: boolean } = {}): Promise<void> {
    const wait = { timeoutMs: recursive ? longTimeoutMs : answerTimeoutMs };
    await this.#once(
      { path, what: "Removing a file" },
      encodeRemove(path, recursive),
      frameType.done,
      wait,
      () => undefined,
    );
  }

  async concatenate(path: string, sources: readonly string[], options: { mode?: number } = {}): Promise<FileInfo> {
    const request = encodeConcatenate(path, sources, options.mode);
    const wait = { timeoutMs: longTimeoutMs };
    return this.#once({ path, what: "Joining files" }, request, frameType.attributes, wait, decodeAttributes);
  }

  #attributes(call: Call, request: Buffer, wait: Partial<Wait> = { timeoutMs: answerTimeoutMs }): Promise<FileInfo> {
    return this.#exchange(
      request,
      async (link) => decodeAttributes(await this.#expect(link, call, frameType.attributes, wait)),
      wait.signal,
    );
  }

  /** What would do something else a second time has a worker nobody can have ended unheard. */
  #once<T>(call: Call, request: Buffer, type: number, wait: Partial<Wait>, decode: (frame: Frame) => T): Promise<T> {
    return this.#guarded(async () => {
      using _slot = await this.#slots.take();
      using link = new WorkerLink(this.#workers.askNew(request).socket);
      return decode(await this.#expect(link, call, type, wait));
    });
  }

  /** A request whose frames `work` reads to the last one. */
  #exchange<T>(request: Buffer, work: (link: WorkerLink) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#guarded(async () => {
      using _slot = await this.#slots.take(signal);
      return await this.#ask(request, async ({ worker, link }) => {
        const result = await work(link);
        if (link.release().rest.length > 0) throw new GuestProtocolError("an answer goes on after its end");
        this.#workers.keep(worker);
        return result;
      });
    });
  }

  /** A kept worker may have been ended inside before it heard the request: then a new one is asked, once. */
  async #ask<T>(request: Buffer, work: (asked: Asked) => Promise<T>): Promise<T> {
    for (let worker = this.#workers.ask(request); ; worker = this.#workers.askNew(request)) {
      const link = new WorkerLink(worker.socket);
      try {
        return await work({ worker, link });
      } catch (error) {
        link[Symbol.dispose]();
        if (!worker.isKept || !link.isUnheard) throw error;
      }
    }
  }

  async #expect(link: WorkerLink, call: Call, type: number, wait: Partial<Wait>): Promise<Frame> {
    const frame = await this.#next(link, call, wait);
    if (frame.type !== type) throw new GuestProtocolError("an answer is of another type");
    return frame;
  }

  async #next(link: WorkerLink, { path, what }: Call, wait: Partial<Wait>): Promise<Frame> {
    const frame = await link.next({ ...wait, what });
    if (frame.type !== frameType.failed) return frame;
    const { errno, operation } = decodeFailed(frame);
    link[Symbol.dispose]();
    throw fileError(errno, operation, path);
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof GuestProtocolError)) throw error;
      this.#onViolation(error);
      throw unintelligible(error);
    }
  }
}
