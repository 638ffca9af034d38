// One request on a connection of its own, which is cut at a chosen place: what it says about the cut is what really happened.
import { randomInt } from "node:crypto";
import { connect, type Socket } from "node:net";

/** Where a connection may be cut; `stream` is the body of an answer that comes while the command runs. */
export const cutPlaces = ["before", "head", "body", "waiting", "answerHead", "answerBody", "stream"] as const;
export type CutPlace = (typeof cutPlaces)[number];

export type Ask = { method: string; path: string; headers?: Record<string, string>; body?: string };
export type WholeAnswer = { status: number; headers: ReadonlyMap<string, string>; text: string };
/** `broken`: the other side ended the connection; `isSent` says whether the whole request had gone out by then. */
export type Outcome =
  | { kind: "answer"; answer: WholeAnswer }
  | { kind: "cut"; place: CutPlace }
  | { kind: "broken"; isSent: boolean; isRefused: boolean };

const answerMaxMs = 60_000;
const bodyCutMaxBytes = 1_500;

/** Rejects only when nothing happens for a long time. */
export function sendCut(port: number, ask: Ask, cut: CutPlace | "none"): Promise<Outcome> {
  const head = requestHead(ask);
  const body = ask.body ?? "";
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    let isSent = false;
    let isRefused = false;
    // A piece never reaches past the place of the cut: what is left lies unread in the kernel, as with a client that died.
    const cutAtByte = cut === "answerHead" ? randomInt(1, 60) : randomInt(1, bodyCutMaxBytes);
    const isCutInAnswer = cut === "answerHead" || cut === "answerBody" || cut === "stream";
    const onPiece = (length: number, buffer: Uint8Array): boolean => {
      received.push(Buffer.from(buffer.subarray(0, length)));
      if (isCutInAnswer && isReached(received, cut, cutAtByte)) cutNow(cut);
      return true;
    };
    const buffer = Buffer.alloc(cut === "answerHead" ? cutAtByte : isCutInAnswer ? 128 : 65_536);
    const socket: Socket = connect({ host: "127.0.0.1", port, onread: { buffer, callback: onPiece } });
    const cutNow = (place: CutPlace): void => {
      if (randomInt(2) === 0) socket.destroy();
      else socket.resetAndDestroy();
      resolve({ kind: "cut", place });
    };
    socket.setTimeout(answerMaxMs, () => {
      socket.destroy();
      reject(new Error(`${ask.method} ${ask.path} was not answered within ${answerMaxMs} ms`));
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      isRefused = error.code === "ECONNREFUSED";
    });
    socket.once("close", () => {
      const answer = readAnswer(Buffer.concat(received));
      resolve(answer === undefined ? { kind: "broken", isSent, isRefused } : { kind: "answer", answer });
    });
    socket.once("connect", () => {
      socket.setNoDelay(true);
      if (cut === "before") return cutNow(cut);
      if (cut === "head") return void socket.write(head.slice(0, randomInt(1, head.length)), () => cutNow(cut));
      if (cut === "body") {
        return void socket.write(head + body.slice(0, randomInt(0, body.length)), () => setTimeout(cutNow, 1, cut));
      }
      socket.write(head + body, () => {
        isSent = true;
        if (cut === "waiting") setTimeout(() => received.length === 0 && cutNow(cut), randomInt(0, 6));
      });
    });
  });
}

function requestHead({ method, path, headers = {}, body = "" }: Ask): string {
  const sent = {
    host: "127.0.0.1",
    connection: "close",
    "content-length": String(Buffer.byteLength(body)),
    ...headers,
  };
  const lines = Object.entries(sent).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`;
}

/** Whether so many bytes of the head, or of what comes after it, have been read. */
function isReached(received: readonly Buffer[], cut: CutPlace, bytes: number): boolean {
  const all = Buffer.concat(received);
  const headEnd = all.indexOf("\r\n\r\n");
  if (cut === "answerHead") return headEnd < 0 && all.length >= bytes;
  return headEnd >= 0 && all.length - headEnd - 4 >= bytes && readAnswer(all) === undefined;
}

/** Undefined unless it has come whole. */
function readAnswer(bytes: Buffer): WholeAnswer | undefined {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const [statusLine = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const body = bytes.subarray(headEnd + 4);
  const isChunked = headers.get("transfer-encoding") === "chunked";
  const content = isChunked ? joinChunks(body) : body.subarray(0, Number(headers.get("content-length")));
  const isWhole = content !== undefined && (isChunked || content.length === Number(headers.get("content-length")));
  return isWhole ? { status: Number(statusLine.split(" ")[1]), headers, text: content.toString() } : undefined;
}

function joinChunks(body: Buffer): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = body.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(body.toString("latin1", at, lineEnd), 16);
    if (size === 0) return body.length >= lineEnd + 4 ? Buffer.concat(chunks) : undefined;
    if (body.length < lineEnd + 2 + size + 2) return undefined;
    chunks.push(body.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}
