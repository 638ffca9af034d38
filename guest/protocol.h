// The numbers of the protocol between a host and the guest; docs/guest-protocol.md describes every one of them.
#ifndef CATNAP_PROTOCOL_H
#define CATNAP_PROTOCOL_H

#define PROTOCOL_MAGIC "CATN"
#define PROTOCOL_VERSION 1
// What this init can do beyond version 1, told in the last byte of its hello; docs/guest-protocol.md lists the revisions.
#define PROTOCOL_REVISION 4
#define HELLO_BYTES 8
#define FRAME_HEADER_BYTES 9

enum connection_kind { KIND_CONTROL = 1, KIND_FILES = 2, KIND_TUNNEL = 3 };

enum frame_type {
  // Host to guest, on the control connection.
  FRAME_RESUME = 0x01,
  FRAME_SPAWN = 0x02,
  FRAME_SIGNAL = 0x03,
  FRAME_ACK = 0x04,
  FRAME_EXIT_ACK = 0x05,
  FRAME_PING = 0x06,
  FRAME_INPUT = 0x07,
  FRAME_RESIZE = 0x08,
  FRAME_BINARY = 0x09,
  FRAME_UPGRADE = 0x0a,
  FRAME_WINDOW = 0x0b,
  // Host to guest, first on a worker connection; data and end follow a write.
  FRAME_SET_MODE = 0x20,
  FRAME_STAT = 0x21,
  FRAME_LIST = 0x22,
  FRAME_READ = 0x23,
  FRAME_WRITE = 0x24,
  FRAME_DATA = 0x25,
  FRAME_END = 0x26,
  FRAME_MAKE_DIRECTORY = 0x27,
  FRAME_REMOVE = 0x28,
  FRAME_CONCATENATE = 0x29,
  FRAME_CONNECT = 0x2a,
  FRAME_WALK = 0x2b,
  FRAME_WATCH = 0x2c,
  FRAME_SOCKETS = 0x2d,
  FRAME_CONNECT_TO = 0x2e,
  // Guest to host, on the control connection.
  FRAME_PROCESS = 0x41,
  FRAME_LISTED = 0x42,
  FRAME_SPAWNED = 0x43,
  FRAME_SIGNALLED = 0x44,
  FRAME_OUTPUT = 0x45,
  FRAME_EXIT = 0x46,
  FRAME_PONG = 0x47,
  FRAME_TAKEN = 0x48,
  FRAME_RESIZED = 0x49,
  FRAME_UPGRADED = 0x4a,
  // Guest to host, on a worker connection.
  FRAME_DONE = 0x61,
  FRAME_ATTRIBUTES = 0x62,
  FRAME_ENTRIES = 0x63,
  FRAME_BODY = 0x64,
  FRAME_FAILED = 0x65,
  FRAME_FOUND = 0x66,
  FRAME_CHANGES = 0x67,
  FRAME_SOCKET_LIST = 0x68,
};

enum end_kind { END_NONE = 0, END_CODE = 1, END_SIGNAL = 2 };
// What a process reads: /dev/null, a pipe, or the terminal that is its output, too.
enum input_kind { INPUT_NONE = 0, INPUT_PIPE = 1, INPUT_TERMINAL = 2 };
enum file_type { TYPE_FILE = 0, TYPE_DIRECTORY = 1, TYPE_SYMLINK = 2, TYPE_OTHER = 3 };

enum walk_flags { WALK_FILES = 1, WALK_DIRECTORIES = 2, WALK_SKIP_HIDDEN = 4 };

enum socket_protocol { PROTOCOL_TCP = 1, PROTOCOL_UDP = 2 };

enum change {
  CHANGE_CREATE = 1,
  CHANGE_WRITE = 2,
  CHANGE_REMOVE = 3,
  CHANGE_RENAME = 4,
  CHANGE_CHMOD = 5,
  // Changes may be missing.
  CHANGE_OVERFLOW = 6,
};

enum limits {
  CONTROL_PAYLOAD_MAX = 1024 * 1024,
  REQUEST_PAYLOAD_MAX = 4 * 1024 * 1024,
  DATA_PAYLOAD_MAX = 1024 * 1024 * 1024,
  ENTRIES_PAYLOAD_MAX = 64 * 1024,
  // Unacknowledged bytes of one stream: of any host, and of one that allows it. Powers of two.
  WINDOW_BYTES = 64 * 1024,
  WIDE_WINDOW_BYTES = 1024 * 1024,
  OUTPUT_CHUNK_MAX = 48 * 1024,
  TOKEN_MAX = 32,
  PATH_TEXT_MAX = 4095,
  NAME_TEXT_MAX = 255,
  OWNER_TEXT_MAX = 64,
  HOST_TEXT_MAX = 253,
  ARGUMENTS_MAX = 4096,
  SOURCES_MAX = 10000,
  EXCLUDED_NAMES_MAX = 256,
  PROCESSES_MAX = 4096,
  BINARY_BYTES_MAX = 16 * 1024 * 1024,
  VERSION_TEXT_MAX = 32,
  FILE_WORKERS_MAX = 128,
  TUNNEL_WORKERS_MAX = 256,
};

#endif
