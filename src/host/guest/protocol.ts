// The numbers of the protocol between a host and the guest; docs/guest-protocol.md describes every one of them.

export const protocolVersion = 1;
/** What an init can do beyond version 1, by the first revision that can; an init tells its revision when it is greeted. */
export const revisionOf = { input: 1, upgrade: 2, setMode: 3, connectTo: 4, keptWorkers: 4, wideWindow: 4 } as const;
export type Ability = keyof typeof revisionOf;
export const helloBytes = 8;
export const frameHeaderBytes = 9;

export const connectionKind = { control: 1, files: 2, tunnel: 3 } as const;
export type ConnectionKind = (typeof connectionKind)[keyof typeof connectionKind];

export const frameType = {
  resume: 0x01,
  spawn: 0x02,
  signal: 0x03,
  ack: 0x04,
  exitAck: 0x05,
  ping: 0x06,
  input: 0x07,
  resize: 0x08,
  binary: 0x09,
  upgrade: 0x0a,
  window: 0x0b,
  setMode: 0x20,
  stat: 0x21,
  list: 0x22,
  read: 0x23,
  write: 0x24,
  data: 0x25,
  end: 0x26,
  makeDirectory: 0x27,
  remove: 0x28,
  concatenate: 0x29,
  connect: 0x2a,
  walk: 0x2b,
  watch: 0x2c,
  sockets: 0x2d,
  connectTo: 0x2e,
  process: 0x41,
  listed: 0x42,
  spawned: 0x43,
  signalled: 0x44,
  output: 0x45,
  exit: 0x46,
  pong: 0x47,
  taken: 0x48,
  resized: 0x49,
  upgraded: 0x4a,
  done: 0x61,
  attributes: 0x62,
  entries: 0x63,
  body: 0x64,
  failed: 0x65,
  found: 0x66,
  changes: 0x67,
  socketList: 0x68,
} as const;

/** Longest payloads the guest accepts. */
export const controlPayloadMax = 1024 * 1024;
export const requestPayloadMax = 4 * 1024 * 1024;
export const dataPayloadMax = 1024 * 1024 * 1024;
/** Longest payload a host accepts from a guest. */
export const answerPayloadMax = 64 * 1024 + 64;
/** Of a stream in one frame. */
export const outputBytesMax = 64 * 1024;
/** Unacknowledged bytes of one stream: without agreement, and at most. */
export const windowBytes = 64 * 1024;
export const wideWindowBytes = 1024 * 1024;
export const tokenMax = 32;
export const pathBytesMax = 4095;
export const nameBytesMax = 4095;
/** Of a name in a directory. */
export const entryNameBytesMax = 255;
export const ownerBytesMax = 64;
export const hostBytesMax = 253;
export const operationBytesMax = 32;
export const argumentsMax = 4096;
export const sourcesMax = 10_000;
/** Longest binary of an init, and how much of one a frame brings. */
export const binaryBytesMax = 16 * 1024 * 1024;
export const binaryPieceBytes = 256 * 1024;
export const versionBytesMax = 32;
export const excludedNamesMax = 256;
export const processesMax = 4096;
