// A lean HTTP/1.1 client over one kept connection: what it costs must not hide what is measured.
import { connect, type Socket } from "node:net";

export type Answer = { status: number; headers: string; body: Buffer; firstByteMs: number };

/** One connection that asks one question at a time; answers need a Content-Length or chunked body. */
export class Connection implements Disposable {
  readonly #socket: Socket;
  readonly #host: string;
  readonly #headers: string;
  #received: Buffer[] = [];
  #waiting:
    | { resolve: (answer: Answer) => void; reject: (error: Error) => void; sentAt: number; firstAt: number }
    | undefined;

  private constructor(socket: Socket, host: string, headers: string) {
    this.#socket = socket;
    this.#host = host;
    this.#headers = headers;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#data(chunk));
    const fail = (error: Error): void => this.#waiting?.reject(error);
    socket.on("error", fail);
    socket.on("close", () => fail(new Error("the connection closed before the answer was whole")));
  }

  static open(origin: string, headers: Record<string, string> = {}): Promise<Connection> {
    const { hostname, port, host } = new URL(origin);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname);
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new Connection(socket, host, lines.join("")));
      });
    });
  }

  request(method: string, path: string, body?: string): Promise<Answer> {
    const entity =
      body === undefined ? "" : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`;
    const head = `${method} ${path} HTTP/1.1\r\nhost: ${this.#host}\r\n${this.#headers}${entity}\r\n`;
    return new Promise((resolve, reject) => {
      // It would wait for an answer for ever.
      if (this.#socket.destroyed) throw new Error("the connection was closed while it was idle");
      this.#received = [];
      this.#waiting = { resolve, reject, sentAt: performance.now(), firstAt: 0 };
      this.#socket.write(head + (body ?? ""));
    });
  }

  #data(chunk: Buffer): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    if (waiting.firstAt === 0) waiting.firstAt = performance.now();
    this.#received.push(chunk);
    const all = this.#received.length === 1 ? chunk : Buffer.concat(this.#received);
    const headEnd = all.indexOf("\r\n\r\n");
    if (headEnd < 0) return;
    const headers = all.toString("latin1", 0, headEnd);
    const length = /content-length: (\d+)/i.exec(headers)?.[1];
    const whole =
      length === undefined
        ? all.subarray(-5).toString("latin1") === "0\r\n\r\n"
        : all.length >= headEnd + 4 + Number(length);
    if (!whole) return;
    this.#waiting = undefined;
    const status = Number(headers.slice(9, 12));
    waiting.resolve({
      status,
      headers,
      body: all.subarray(headEnd + 4),
      firstByteMs: waiting.firstAt - waiting.sentAt,
    });
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

/** Throws unless the answer's status is 200, so that an error is never measured as a fast answer. */
export function expectOk(answer: Answer): Answer {
  if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${answer.body.toString("utf8", 0, 500)}`);
  return answer;
}
