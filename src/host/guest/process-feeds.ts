// The feeds of all processes of a guest: which channel is whose, when they are delivered, what is acknowledged, how much may wait.
import type { Logger } from "../../core/log.ts";
import type { OutputStream, ProcessSink } from "../../sandbox-api/machine.ts";
import { GuestProtocolError } from "./guest-errors.ts";
import { encodeAck, encodeEmpty } from "./messages.ts";
import { ProcessFeed } from "./process-feed.ts";
import { frameType, processesMax, windowBytes } from "./protocol.ts";

/** Above this much waiting output nothing more is read from the guest until half of it is taken. */
const waitingBytesMax = 16 * 1024 * 1024;

type Acked = Partial<Record<OutputStream, number>>;

/** The connection the feeds come from. */
export type FeedSource = {
  readonly log: Logger;
  readonly stopped: AbortSignal;
  send(frames: Buffer): void;
  pause(): void;
  resume(): void;
};

export class ProcessFeeds {
  readonly #source: FeedSource;
  readonly #feeds = new Map<number, ProcessFeed>();
  readonly #ready = new Set<ProcessFeed>();
  readonly #acks = new Map<ProcessFeed, Acked>();
  readonly #deliveries = new Set<Promise<void>>();
  #windowBytes = windowBytes;
  #sink: ProcessSink | undefined;
  #waitingBytes = 0;
  #isPaused = false;
  #deliveryScheduled = false;
  #acksScheduled = false;

  constructor(source: FeedSource) {
    this.#source = source;
  }

  add(identity: { token: string; channel: number; pid: number }, acked: readonly [number, number]): void {
    if (this.#feeds.size >= processesMax) throw new GuestProtocolError("too many processes");
    if (this.#feeds.has(identity.channel)) throw new GuestProtocolError("a channel is used twice");
    this.#feeds.set(identity.channel, new ProcessFeed(identity, acked));
  }

  /** Unacknowledged bytes that the guest may send of each stream. */
  get windowBytes(): number {
    return this.#windowBytes;
  }

  /** Never less than before: what was allowed may be on its way. */
  allowWindow(bytes: number): void {
    this.#windowBytes = Math.max(this.#windowBytes, bytes);
  }

  get(channel: number): ProcessFeed {
    const feed = this.#feeds.get(channel);
    if (feed === undefined) throw new GuestProtocolError("a channel is not known");
    return feed;
  }

  /** What has arrived and will arrive goes to the sink from now on. */
  open(sink: ProcessSink): void {
    this.#sink = sink;
    this.#scheduleDelivery();
  }

  /** The feed has something to deliver, which takes this many bytes of memory until it is. */
  arrived(feed: ProcessFeed, bytes: number): void {
    this.#account(bytes);
    this.#ready.add(feed);
    this.#scheduleDelivery();
  }

  close(): void {
    this.#feeds.clear();
    this.#ready.clear();
    this.#acks.clear();
  }

  /** Resolves when the sink has nothing in its hands any more. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#deliveries);
  }

  /** Deliveries begin after the answers that came in the same piece have reached their callers. */
  #scheduleDelivery(): void {
    if (this.#sink === undefined || this.#deliveryScheduled || this.#ready.size === 0) return;
    this.#deliveryScheduled = true;
    setImmediate(() => {
      this.#deliveryScheduled = false;
      const feeds = [...this.#ready];
      this.#ready.clear();
      for (const feed of feeds) {
        const delivery = this.#deliver(feed, this.#sink!).finally(() => this.#deliveries.delete(delivery));
        this.#deliveries.add(delivery);
      }
    });
  }

  async #deliver(feed: ProcessFeed, sink: ProcessSink): Promise<void> {
    await feed.deliver({
      sink,
      log: this.#source.log,
      stopped: this.#source.stopped,
      account: (bytes) => this.#account(bytes),
      acknowledge: (stream, offset) => this.#acknowledge(feed, stream, offset),
      acknowledgeExit: () => this.#acknowledgeExit(feed),
    });
  }

  #account(bytes: number): void {
    this.#waitingBytes += bytes;
    if (!this.#isPaused && this.#waitingBytes > waitingBytesMax) {
      this.#isPaused = true;
      this.#source.pause();
    } else if (this.#isPaused && this.#waitingBytes < waitingBytesMax / 2) {
      this.#isPaused = false;
      this.#source.resume();
    }
  }

  /** Acknowledgements of one turn of the event loop are sent together. */
  #acknowledge(feed: ProcessFeed, stream: OutputStream, offset: number): void {
    this.#acks.set(feed, { ...this.#acks.get(feed), [stream]: offset });
    if (this.#acksScheduled) return;
    this.#acksScheduled = true;
    setImmediate(() => {
      this.#acksScheduled = false;
      const frames = [...this.#acks].flatMap(([acked, offsets]) => ackFrames(acked, offsets));
      this.#acks.clear();
      if (frames.length > 0) this.#source.send(Buffer.concat(frames));
    });
  }

  #acknowledgeExit(feed: ProcessFeed): void {
    const frames = ackFrames(feed, this.#acks.get(feed) ?? {});
    this.#acks.delete(feed);
    this.#feeds.delete(feed.channel);
    this.#source.send(Buffer.concat([...frames, encodeEmpty(frameType.exitAck, feed.channel)]));
  }
}

function ackFrames(feed: ProcessFeed, offsets: Acked): Buffer[] {
  return (["stdout", "stderr"] as const)
    .filter((stream) => offsets[stream] !== undefined)
    .map((stream) => encodeAck(feed.channel, stream, offsets[stream]!));
}
