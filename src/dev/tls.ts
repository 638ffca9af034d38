// TLS on the platform's own listener: certificate and key come from two files, which are read again when they are renewed.
import { createPrivateKey, constants as cryptoConstants, X509Certificate } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from "node:fs";
import type { Socket } from "node:net";
import { createSecureContext, createServer, type SecureContextOptions, type TLSSocket } from "node:tls";
import type { Logger } from "../core/log.ts";
import { startLoop } from "../core/loop.ts";
import { invalidSetting, readText, type Settings } from "../core/settings.ts";

const certSetting = "CATNAP_TLS_CERT";
const keySetting = "CATNAP_TLS_KEY";
const fileMaxBytes = 1024 * 1024;
const rereadIntervalMs = 1_000;

/** TLS 1.3, and of TLS 1.2 what has forward secrecy and authenticated encryption: HTTP/2 forbids the rest (RFC 9113, 9.2.2). */
const ciphers = [
  "TLS_AES_128_GCM_SHA256",
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
].join(":");

export type TlsFiles = { certPath: string; keyPath: string };

/** Undefined when the platform answers in the clear. */
export function readTlsFiles(settings: Settings): TlsFiles | undefined {
  const certPath = readText(settings, certSetting);
  const keyPath = readText(settings, keySetting);
  if (certPath === undefined && keyPath === undefined) return undefined;
  if (certPath === undefined) throw invalidSetting(certSetting, `set together with ${keySetting}`);
  if (keyPath === undefined) throw invalidSetting(keySetting, `set together with ${certSetting}`);
  return { certPath, keyPath };
}

export type TlsOptions = {
  files: TlsFiles;
  log: Logger;
  /** How often the files are looked at. */
  intervalMs?: number;
};

export type Tls = AsyncDisposable & {
  /** Calls back with connections whose handshake is done in time; all others are closed. */
  secure(options: { handshakeTimeoutMs: number; onSecure: (socket: TLSSocket) => void }): (raw: Socket) => void;
};

/** Throws an error that names the setting when the files cannot be used. */
export function openTls({ files, log, intervalMs = rereadIntervalMs }: TlsOptions): Tls {
  let inUse = load(files, log);
  let seen = inUse.stamp;
  const renewals = new Set<(context: SecureContextOptions) => void>();
  const reread = async (): Promise<void> => {
    const stamp = stampOf(files);
    const isSettled = stamp === seen;
    seen = stamp;
    // The two files change one after the other: whoever writes them is given until the next look.
    if (stamp === inUse.stamp || !isSettled) return;
    try {
      inUse = load(files, log);
      for (const renew of renewals) renew(inUse.context);
    } catch (error) {
      inUse = { ...inUse, stamp };
      log.error({ err: error }, "the renewed TLS certificate cannot be used; the one before it stays in use");
    }
  };
  const loop = startLoop({ name: "TLS certificate", intervalMs, log, work: reread });
  return {
    secure({ handshakeTimeoutMs, onSecure }) {
      const server = createServer({
        ...inUse.context,
        ALPNProtocols: ["h2", "http/1.1"],
        handshakeTimeout: handshakeTimeoutMs,
      });
      renewals.add((context) => server.setSecureContext(context));
      server.on("secureConnection", onSecure);
      server.on("tlsClientError", (error, socket) => {
        log.debug({ err: error }, "TLS handshake failed");
        socket.destroy();
      });
      return (raw) => {
        raw.on("error", () => raw.destroy());
        server.emit("connection", raw);
      };
    },
    [Symbol.asyncDispose]: () => loop[Symbol.asyncDispose](),
  };
}

type Loaded = { context: SecureContextOptions; stamp: string };

function load(files: TlsFiles, log: Logger): Loaded {
  const stamp = stampOf(files);
  const cert = readBounded(files.certPath, certSetting);
  const key = readBounded(files.keyPath, keySetting);
  const certificate = attempt(
    () => new X509Certificate(cert),
    certSetting,
    "a file of certificates in PEM, its own first",
  );
  const privateKey = attempt(
    () => createPrivateKey(key),
    keySetting,
    "a file with a private key in PEM, without a passphrase",
  );
  if (!certificate.checkPrivateKey(privateKey)) {
    throw invalidSetting(keySetting, `the key of the certificate in ${certSetting}`);
  }
  const context: SecureContextOptions = {
    cert,
    key,
    ciphers,
    minVersion: "TLSv1.2",
    honorCipherOrder: true,
    secureOptions: cryptoConstants.SSL_OP_NO_RENEGOTIATION,
  };
  attempt(() => createSecureContext(context), certSetting, "a certificate that TLS can use");
  const { subject, subjectAltName, validTo } = certificate;
  const details = { subject, subjectAltName, validTo };
  if (Date.parse(validTo) <= Date.now()) log.warn(details, "the TLS certificate has expired");
  else log.info(details, "TLS certificate read");
  return { context, stamp };
}

function attempt<T>(read: () => T, setting: string, rule: string): T {
  try {
    return read();
  } catch (cause) {
    throw Object.assign(invalidSetting(setting, rule), { cause });
  }
}

/** A pipe, which would never end, is refused. */
function readBounded(path: string, setting: string): Buffer {
  const file = attempt(
    () => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK),
    setting,
    "a file that can be read",
  );
  try {
    const stats = fstatSync(file);
    if (!stats.isFile()) throw invalidSetting(setting, "a file, which this is not");
    if (stats.size > fileMaxBytes) throw invalidSetting(setting, `a file of at most ${fileMaxBytes} bytes`);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

function stampOf({ certPath, keyPath }: TlsFiles): string {
  return [certPath, keyPath].map(describeFile).join(", ");
}

function describeFile(path: string): string {
  try {
    const { ino, size, mtimeMs, ctimeMs } = statSync(path);
    return `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
  } catch (error) {
    // Reading it will say what is wrong with it.
    return String((error as NodeJS.ErrnoException).code);
  }
}
