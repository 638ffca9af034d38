// Files inside a sandbox: each operation is one connection to a worker of the guest.
import type { Readable } from "node:stream";
import type { FileInfo, GuestFiles } from "../../sandbox-api/machine.ts";
import { FileBody } from "./file-body.ts";
import { dataFrames, endFrame, sendBody } from "./file-upload.ts";
import type { Frame } from "./frames.ts";
import { fileError, GuestProtocolError } from "./guest-errors.ts";
import {
  decodeAttributes,
  decodeBody,
  decodeEntries,
  decodeFailed,
  encodeConcatenate,
  encodeList,
  encodeMakeDirectory,
  encodeRead,
  encodeRemove,
  encodeSetMode,
  encodeStat,
  encodeWrite,
} from "./messages.ts";
import { type Ability, connectionKind, frameType } from "./protocol.ts";
import { Slots } from "./slots.ts";
import { unintelligible, type Wait, WorkerLink } from "./worker-link.ts";

const answerTimeoutMs = 30_000;
/** For work that grows with the number or size of files. */
const longTimeoutMs = 10 * 60_000;
/** Entries of a directory that are kept in memory at most, whatever a caller allows. */
const entriesLimit = 100_000;
/** Fewer than the guest's own limit, so that one host does not meet it. */
const slotLimits = {
  slots: 96,
  waitingMax: 1024,
  waitMs: 30_000,
  refusal: "Too many file operations are under way in this sandbox.",
};
/** A body of up to this size travels with its request. */
const smallBodyBytes = 128 * 1024;

type Call = { path: string; what: string };

export class ConnectedFiles implements GuestFiles {
  readonly #socketPath: string;
  readonly #onViolation: (error: GuestProtocolError) => void;
  readonly #require: (ability: Ability) => void;
  readonly #slots = new Slots(slotLimits);

  constructor(options: {
    socketPath: string;
    onViolation: (error: GuestProtocolError) => void;
    require: (ability: Ability) => void;
  }) {
    this.#socketPath = options.socketPath;
    this.#onViolation = options.onViolation;
    this.#require = options.require;
  }

  async stat(path: string): Promise<FileInfo> {
    return this.#single({ path, what: "Looking at a file" }, encodeStat(path), decodeAttributes);
  }

  async list(path: string, entriesMax = entriesLimit): Promise<FileInfo[]> {
    const call = { path, what: "Listing a directory" };
    const request = encodeList(path, Math.min(entriesMax, entriesLimit));
    return this.#guarded(async () => {
      using _slot = await this.#slots.take();
      using link = this.#open(request);
      const entries: FileInfo[] = [];
      for (;;) {
        const frame = await this.#next(link, call, { timeoutMs: answerTimeoutMs });
        if (frame.type === frameType.done) break;
        if (frame.type !== frameType.entries) throw new GuestProtocolError("a list has a frame that is no part of it");
        entries.push(...decodeEntries(frame));
        if (entries.length > entriesLimit) throw new GuestProtocolError("a list is longer than was allowed");
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
    return this.#guarded(async () => {
      const slot = await this.#slots.take();
      try {
        const link = this.#open(request);
        const frame = await this.#next(link, call, { timeoutMs: answerTimeoutMs });
        if (frame.type !== frameType.body) throw new GuestProtocolError("a file's answer is of another type");
        const { length, info } = decodeBody(frame);
        const { socket, rest } = link.release();
        const onClosed = (): void => slot[Symbol.dispose]();
        return { info, body: new FileBody({ socket, first: rest, lengthBytes: length, onClosed }) };
      } catch (error) {
        slot[Symbol.dispose]();
        throw error;
      }
    });
  }

  async write(
    path: string,
    body: Readable | Buffer,
    { mode, signal }: { mode?: number; signal?: AbortSignal } = {},
  ): Promise<FileInfo> {
    const call = { path, what: "Writing a file" };
    const request = encodeWrite(path, mode);
    return this.#guarded(async () => {
      using _slot = await this.#slots.take(signal);
      if (Buffer.isBuffer(body) && body.length <= smallBodyBytes) {
        using link = this.#open(Buffer.concat([request, ...dataFrames(body), endFrame]));
        return decodeAttributes(await this.#expect(link, call, frameType.attributes, { signal }));
      }
      using link = this.#open(request);
      const answer = this.#expect(link, call, frameType.attributes, { signal });
      // When the body fails first, nobody asks for the answer any more.
      answer.catch(() => undefined);
      if (Buffer.isBuffer(body)) {
        for (const part of [...dataFrames(body), endFrame]) link.socket.write(part);
        return decodeAttributes(await answer);
      }
      using upload = sendBody(link.socket, body);
      // The answer may come first: the guest refuses a file it cannot write without reading all of it.
      await Promise.race([answer, upload.sent]);
      return decodeAttributes(await answer);
    });
  }

  async setMode(path: string, mode: number): Promise<FileInfo> {
    this.#require("setMode");
    return this.#single({ path, what: "Changing a file's mode" }, encodeSetMode(path, mode), decodeAttributes);
  }

  async makeDirectory(path: string, mode?: number): Promise<void> {
    await this.#single({ path, what: "Making a directory" }, encodeMakeDirectory(path, mode), undefined);
  }

  async remove(path: string, { recursive = false }: { recursive?: boolean } = {}): Promise<void> {
    const wait = { timeoutMs: recursive ? longTimeoutMs : answerTimeoutMs };
    await this.#single({ path, what: "Removing a file" }, encodeRemove(path, recursive), undefined, wait);
  }

  async concatenate(path: string, sources: readonly string[], options: { mode?: number } = {}): Promise<FileInfo> {
    const request = encodeConcatenate(path, sources, options.mode);
    const wait = { timeoutMs: longTimeoutMs };
    return this.#single({ path, what: "Joining files" }, request, decodeAttributes, wait);
  }

  /** One request, one answer: attributes when they are decoded, else an empty one. */
  async #single<T = void>(
    call: Call,
    request: Buffer,
    decode: ((frame: Frame) => T) | undefined,
    wait: Partial<Wait> = { timeoutMs: answerTimeoutMs },
  ): Promise<T> {
    return this.#guarded(async () => {
      using _slot = await this.#slots.take();
      using link = this.#open(request);
      const type = decode === undefined ? frameType.done : frameType.attributes;
      const frame = await this.#expect(link, call, type, wait);
      return decode === undefined ? (undefined as T) : decode(frame);
    });
  }

  #open(request: Buffer): WorkerLink {
    return new WorkerLink(this.#socketPath, connectionKind.files, request);
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
