// What the frames mean: decoding of everything a host sends, encoding of everything the guest answers. No input or output here.
#ifndef CATNAP_MESSAGES_H
#define CATNAP_MESSAGES_H

#include <sys/types.h>

#include "cursor.h"

// The kind of a hello, 0 when it is not one, -1 when it is of another version.
int decode_hello(const uint8_t *bytes);
void encode_hello(uint8_t *bytes, uint8_t kind);

struct text_list {
  uint32_t count;
  struct cursor texts;
};

// Pointers point into the payload, which has to stay until they are no longer used.
struct spawn_request {
  const char *token;
  const char *working_dir;
  struct text_list arguments;
  struct text_list environment;
  uint8_t input;
  // Of a terminal.
  uint16_t columns;
  uint16_t rows;
};

bool decode_spawn(const uint8_t *payload, size_t length, struct spawn_request *request);
// Fills `vector`, which has room for `list->count + 1` pointers, and ends it with NULL.
void text_vector(const struct text_list *list, char **vector);

struct signal_request {
  const char *token;
  uint32_t number;
};

bool decode_signal(const uint8_t *payload, size_t length, struct signal_request *request);

struct input_request {
  const char *token;
  // Where the bytes begin, counted from the first one the process was ever given.
  uint64_t offset;
  // Nothing comes after these.
  bool last;
  const uint8_t *bytes;
  size_t length;
};

bool decode_input(const uint8_t *payload, size_t length, struct input_request *request);

struct resize_request {
  const char *token;
  uint16_t columns;
  uint16_t rows;
};

bool decode_resize(const uint8_t *payload, size_t length, struct resize_request *request);

struct binary_piece {
  uint32_t offset;
  const uint8_t *bytes;
  size_t length;
};

bool decode_binary(const uint8_t *payload, size_t length, struct binary_piece *piece);
// The size of the whole binary; 0 when the request is malformed.
uint32_t decode_upgrade(const uint8_t *payload, size_t length);

// What the host takes unacknowledged of each stream; 0 when the request is malformed.
uint32_t decode_window(const uint8_t *payload, size_t length);

struct ack {
  uint8_t stream;
  uint64_t offset;
};

bool decode_ack(const uint8_t *payload, size_t length, struct ack *ack);

// A request on a worker connection; only the fields of its type are set.
struct file_request {
  uint8_t type;
  const char *path;
  uint64_t offset;
  uint64_t length;
  uint32_t entries_max;
  bool has_mode;
  uint32_t mode;
  bool recursive;
  uint16_t port;
  // A name or an address.
  const char *host;
  struct text_list sources;
  uint8_t flags;
  // Of directories that are not entered.
  struct text_list names;
  uint32_t pid;
};

bool decode_file_request(uint8_t type, const uint8_t *payload, size_t length, struct file_request *request);

struct process_message {
  uint32_t channel;
  uint32_t pid;
  uint64_t acked[2];
  uint8_t end_kind;
  uint32_t end_value;
  const char *token;
  uint8_t input;
  bool input_open;
  uint64_t input_taken;
};

void encode_process(struct packer *packer, const struct process_message *message);
void encode_empty(struct packer *packer, uint8_t type, uint32_t channel);
void encode_spawned(struct packer *packer, uint32_t request, int error, uint32_t pid, uint32_t channel, const char *step);
// An answer of nothing but an errno: signalled or resized.
void encode_errno(struct packer *packer, uint8_t type, uint32_t request, int error);
void encode_taken(struct packer *packer, uint32_t request, int error, uint64_t offset);
// The header and fields of an output frame whose `length` bytes the caller puts next.
void encode_output_head(struct packer *packer, uint32_t channel, uint8_t stream, uint64_t offset, uint32_t length);
void encode_exit(struct packer *packer, uint32_t channel, uint8_t kind, uint32_t value);

// What came of an upgrade. Without a step it succeeded; else `value` is what the step says about it, most often an errno.
struct upgrade_message {
  uint32_t request;
  const char *step;
  uint32_t value;
  const char *from;
  const char *to;
  uint8_t revision;
};

void encode_upgraded(struct packer *packer, const struct upgrade_message *message);

struct attributes {
  uint8_t type;
  uint32_t mode;
  uint32_t uid;
  uint32_t gid;
  uint64_t size;
  int64_t modified_at_ms;
  const char *owner;
  const char *group;
  const char *name;
};

void put_attributes(struct packer *packer, const struct attributes *attributes);
void encode_attributes(struct packer *packer, const struct attributes *attributes);
void encode_body(struct packer *packer, uint64_t length, const struct attributes *attributes);
// Items of the answers that have many: see docs/guest-protocol.md.
void put_found(struct packer *packer, uint8_t type, const char *path);
void put_change(struct packer *packer, uint8_t change, bool is_directory, const char *path);

struct socket_address {
  // Of IPv4 the first four; in the order of the network.
  uint8_t bytes[16];
  uint32_t port;
};

struct socket_item {
  uint32_t pid;
  uint8_t protocol;
  uint8_t family;
  uint8_t state;
  struct socket_address local;
  struct socket_address remote;
  const char *process_name;
};

void put_socket(struct packer *packer, const struct socket_item *item);
void encode_failed(struct packer *packer, int error, const char *operation);

#endif
