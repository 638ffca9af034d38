// What a connection speaks is told by its first bytes: they are looked at once, and whoever serves it reads them again.
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { closeLate } from "../core/late-close.ts";
import { Timing } from "../core/timing.ts";
import { isPreface } from "./http2/server.ts";

type Serve = (socket: Socket) => void;
/** Undefined as long as too few bytes are there. */
type Choose = (first: Buffer) => Serve | undefined;

/** HTTP/2 begins with its preface; the HTTP/1 server takes all others as it would have. */
export function choosesHttp(serveHttp1: Serve, serveHttp2: Serve): Choose {
  return (first) => {
    const isHttp2 = isPreface(first);
    return isHttp2 === undefined ? undefined : isHttp2 ? serveHttp2 : serveHttp1;
  };
}

/** A record with a handshake is TLS. What begins as requests do is told which scheme is meant; it would not understand an alert of TLS. */
export function choosesTls(secure: Serve): Choose {
  return (first) => {
    if (first[0] === 0x16) return secure;
    const isRequest = /^[A-Z]$/.test(String.fromCharCode(first[0]!));
    return isRequest ? refusePlain : (socket) => void socket.destroy();
  };
}

export function lookAtFirst(choose: Choose, timeoutMs: number): Serve {
  return (socket) => {
    const giveUp = (): void => void socket.destroy();
    const timer = setTimeout(giveUp, timeoutMs);
    let first: Buffer = Buffer.alloc(0);
    const onReadable = (): void => {
      const bytes = socket.read() as Buffer | null;
      if (bytes === null) return;
      first = first.length === 0 ? bytes : Buffer.concat([first, bytes]);
      const serve = choose(first);
      if (serve === undefined) return;
      socket.unshift(first);
      clearTimeout(timer);
      socket.off("readable", onReadable).off("error", giveUp).off("end", giveUp);
      serve(socket);
    };
    socket.on("error", giveUp).on("end", giveUp).on("readable", onReadable);
    socket.once("close", () => clearTimeout(timer));
  };
}

function refusePlain(socket: Duplex): void {
  socket.on("error", () => socket.destroy());
  const body = "This port is spoken to by HTTPS: use https:// instead of http://.\n";
  const head = [
    "HTTP/1.1 400 Bad Request",
    "content-type: text/plain; charset=utf-8",
    `content-length: ${body.length}`,
    "cache-control: no-store",
    `server-timing: ${new Timing().header()}`,
    "connection: close",
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
  closeLate(socket);
}
