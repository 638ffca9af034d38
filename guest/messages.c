// Decodes everything a host sends and encodes everything the guest answers.
#include "messages.h"

#include <string.h>

#include "protocol.h"

int decode_hello(const uint8_t *bytes) {
  if (memcmp(bytes, PROTOCOL_MAGIC, 4) != 0 || bytes[7] != 0) return 0;
  if (bytes[4] != PROTOCOL_VERSION || bytes[5] != 0) return -1;
  return bytes[6] >= KIND_CONTROL && bytes[6] <= KIND_TUNNEL ? bytes[6] : 0;
}

void encode_hello(uint8_t *bytes, uint8_t kind) {
  memcpy(bytes, PROTOCOL_MAGIC, 4);
  bytes[4] = PROTOCOL_VERSION;
  bytes[5] = 0;
  bytes[6] = kind;
  bytes[7] = PROTOCOL_REVISION;
}

// Tokens name nothing in the file system, yet keep to an alphabet that is safe everywhere.
static const char *take_token(struct cursor *cursor) {
  const char *token = take_text(cursor, TOKEN_MAX);
  if (token == NULL) return NULL;
  size_t length = strlen(token);
  if (length == 0 || strspn(token, "abcdefghijklmnopqrstuvwxyz0123456789") != length) cursor->bad = true;
  return token;
}

static const char *take_path(struct cursor *cursor) {
  const char *path = take_text(cursor, PATH_TEXT_MAX);
  if (path != NULL && path[0] != '/') cursor->bad = true;
  return path;
}

// Steps over `count` texts after checking each, so that reading them again cannot fail.
static struct text_list take_texts(struct cursor *cursor, uint32_t max, size_t text_max, bool paths) {
  struct text_list list = {.count = take_u32(cursor)};
  if (list.count > max) cursor->bad = true;
  list.texts = *cursor;
  for (uint32_t i = 0; i < list.count && !cursor->bad; i++) {
    if (paths) take_path(cursor);
    else take_text(cursor, text_max);
  }
  return list;
}

bool decode_spawn(const uint8_t *payload, size_t length, struct spawn_request *request) {
  struct cursor cursor = {.at = payload, .left = length};
  request->token = take_token(&cursor);
  request->working_dir = take_path(&cursor);
  request->arguments = take_texts(&cursor, ARGUMENTS_MAX, CONTROL_PAYLOAD_MAX, false);
  request->environment = take_texts(&cursor, ARGUMENTS_MAX, CONTROL_PAYLOAD_MAX, false);
  request->input = INPUT_NONE;
  request->columns = request->rows = 0;
  if (cursor.bad || request->arguments.count == 0) return false;
  if (cursor.left == 0) return true;
  request->input = take_u8(&cursor);
  if (request->input == INPUT_TERMINAL) {
    request->columns = take_u16(&cursor);
    request->rows = take_u16(&cursor);
    if (request->columns == 0 || request->rows == 0) return false;
  }
  return cursor_finished(&cursor) && (request->input == INPUT_PIPE || request->input == INPUT_TERMINAL);
}

void text_vector(const struct text_list *list, char **vector) {
  struct cursor cursor = list->texts;
  for (uint32_t i = 0; i < list->count; i++) vector[i] = (char *)take_text(&cursor, CONTROL_PAYLOAD_MAX);
  vector[list->count] = NULL;
}

bool decode_signal(const uint8_t *payload, size_t length, struct signal_request *request) {
  struct cursor cursor = {.at = payload, .left = length};
  request->number = take_u32(&cursor);
  request->token = take_token(&cursor);
  return cursor_finished(&cursor) && request->number >= 1 && request->number <= 64;
}

bool decode_input(const uint8_t *payload, size_t length, struct input_request *request) {
  struct cursor cursor = {.at = payload, .left = length};
  request->offset = take_u64(&cursor);
  uint8_t last = take_u8(&cursor);
  request->last = last == 1;
  request->token = take_token(&cursor);
  request->bytes = cursor.at;
  request->length = cursor.left;
  return !cursor.bad && last <= 1;
}

bool decode_resize(const uint8_t *payload, size_t length, struct resize_request *request) {
  struct cursor cursor = {.at = payload, .left = length};
  request->columns = take_u16(&cursor);
  request->rows = take_u16(&cursor);
  request->token = take_token(&cursor);
  return cursor_finished(&cursor) && request->columns > 0 && request->rows > 0;
}

bool decode_binary(const uint8_t *payload, size_t length, struct binary_piece *piece) {
  struct cursor cursor = {.at = payload, .left = length};
  piece->offset = take_u32(&cursor);
  piece->bytes = cursor.at;
  piece->length = cursor.left;
  return !cursor.bad && piece->length > 0;
}

uint32_t decode_upgrade(const uint8_t *payload, size_t length) {
  struct cursor cursor = {.at = payload, .left = length};
  uint32_t size = take_u32(&cursor);
  return cursor_finished(&cursor) && size <= BINARY_BYTES_MAX ? size : 0;
}

uint32_t decode_window(const uint8_t *payload, size_t length) {
  struct cursor cursor = {.at = payload, .left = length};
  uint32_t window = take_u32(&cursor);
  return cursor_finished(&cursor) && window >= WINDOW_BYTES ? window : 0;
}

bool decode_ack(const uint8_t *payload, size_t length, struct ack *ack) {
  struct cursor cursor = {.at = payload, .left = length};
  ack->stream = take_u8(&cursor);
  ack->offset = take_u64(&cursor);
  return cursor_finished(&cursor) && (ack->stream == 1 || ack->stream == 2);
}

static void take_mode(struct cursor *cursor, struct file_request *request) {
  uint8_t has_mode = take_u8(cursor);
  request->has_mode = has_mode == 1;
  request->mode = take_u32(cursor);
  if (has_mode > 1 || request->mode > 07777) cursor->bad = true;
}

// What a name or an address may consist of; no zone, no bracket, nothing a resolver could take for an option.
static const char *take_host(struct cursor *cursor) {
  const char *host = take_text(cursor, HOST_TEXT_MAX);
  if (host == NULL) return NULL;
  const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:";
  if (host[0] == 0 || host[strspn(host, allowed)] != 0) cursor->bad = true;
  return host;
}

bool decode_file_request(uint8_t type, const uint8_t *payload, size_t length, struct file_request *request) {
  struct cursor cursor = {.at = payload, .left = length};
  *request = (struct file_request){.type = type};
  switch (type) {
    case FRAME_STAT:
      break;
    case FRAME_LIST:
      request->entries_max = take_u32(&cursor);
      break;
    case FRAME_READ:
      request->offset = take_u64(&cursor);
      request->length = take_u64(&cursor);
      break;
    case FRAME_WRITE:
    case FRAME_MAKE_DIRECTORY:
      take_mode(&cursor, request);
      break;
    case FRAME_SET_MODE:
      take_mode(&cursor, request);
      if (!request->has_mode) return false;
      break;
    case FRAME_WALK:
      request->flags = take_u8(&cursor);
      request->entries_max = take_u32(&cursor);
      request->names = take_texts(&cursor, EXCLUDED_NAMES_MAX, NAME_TEXT_MAX, false);
      if (request->flags > (WALK_FILES | WALK_DIRECTORIES | WALK_SKIP_HIDDEN)) return false;
      break;
    case FRAME_SOCKETS:
      request->pid = take_u32(&cursor);
      return cursor_finished(&cursor);
    case FRAME_WATCH:
    case FRAME_REMOVE: {
      uint8_t recursive = take_u8(&cursor);
      request->recursive = recursive == 1;
      if (recursive > 1) return false;
      break;
    }
    case FRAME_CONCATENATE:
      take_mode(&cursor, request);
      request->path = take_path(&cursor);
      request->sources = take_texts(&cursor, SOURCES_MAX, PATH_TEXT_MAX, true);
      return cursor_finished(&cursor);
    case FRAME_CONNECT:
      request->port = take_u16(&cursor);
      return cursor_finished(&cursor) && request->port > 0;
    case FRAME_CONNECT_TO:
      request->port = take_u16(&cursor);
      request->host = take_host(&cursor);
      return cursor_finished(&cursor) && request->port > 0;
    default:
      return false;
  }
  request->path = take_path(&cursor);
  return cursor_finished(&cursor);
}

void encode_process(struct packer *packer, const struct process_message *message) {
  size_t begun = frame_begin(packer, FRAME_PROCESS, message->channel);
  put_u32(packer, message->pid);
  put_u64(packer, message->acked[0]);
  put_u64(packer, message->acked[1]);
  put_u8(packer, message->end_kind);
  put_u32(packer, message->end_value);
  put_text(packer, message->token);
  if (message->input != INPUT_NONE) {
    put_u8(packer, message->input);
    put_u8(packer, message->input_open ? 1 : 0);
    put_u64(packer, message->input_taken);
  }
  frame_complete(packer, begun);
}

void encode_empty(struct packer *packer, uint8_t type, uint32_t channel) {
  frame_complete(packer, frame_begin(packer, type, channel));
}

void encode_spawned(struct packer *packer, uint32_t request, int error, uint32_t pid, uint32_t channel, const char *step) {
  size_t begun = frame_begin(packer, FRAME_SPAWNED, request);
  put_u32(packer, (uint32_t)error);
  put_u32(packer, pid);
  put_u32(packer, channel);
  put_text(packer, step);
  frame_complete(packer, begun);
}

void encode_errno(struct packer *packer, uint8_t type, uint32_t request, int error) {
  size_t begun = frame_begin(packer, type, request);
  put_u32(packer, (uint32_t)error);
  frame_complete(packer, begun);
}

void encode_taken(struct packer *packer, uint32_t request, int error, uint64_t offset) {
  size_t begun = frame_begin(packer, FRAME_TAKEN, request);
  put_u32(packer, (uint32_t)error);
  put_u64(packer, offset);
  frame_complete(packer, begun);
}

void encode_output_head(struct packer *packer, uint32_t channel, uint8_t stream, uint64_t offset, uint32_t length) {
  put_u32(packer, 9 + length);
  put_u8(packer, FRAME_OUTPUT);
  put_u32(packer, channel);
  put_u8(packer, stream);
  put_u64(packer, offset);
}

void encode_exit(struct packer *packer, uint32_t channel, uint8_t kind, uint32_t value) {
  size_t begun = frame_begin(packer, FRAME_EXIT, channel);
  put_u8(packer, kind);
  put_u32(packer, value);
  frame_complete(packer, begun);
}

void encode_upgraded(struct packer *packer, const struct upgrade_message *message) {
  size_t begun = frame_begin(packer, FRAME_UPGRADED, message->request);
  put_text(packer, message->step);
  put_u32(packer, message->value);
  put_text(packer, message->from);
  put_text(packer, message->to);
  put_u8(packer, message->revision);
  frame_complete(packer, begun);
}

void put_attributes(struct packer *packer, const struct attributes *attributes) {
  put_u8(packer, attributes->type);
  put_u32(packer, attributes->mode);
  put_u32(packer, attributes->uid);
  put_u32(packer, attributes->gid);
  put_u64(packer, attributes->size);
  put_u64(packer, (uint64_t)attributes->modified_at_ms);
  put_text(packer, attributes->owner);
  put_text(packer, attributes->group);
  put_text(packer, attributes->name);
}

void encode_attributes(struct packer *packer, const struct attributes *attributes) {
  size_t begun = frame_begin(packer, FRAME_ATTRIBUTES, 0);
  put_attributes(packer, attributes);
  frame_complete(packer, begun);
}

void encode_body(struct packer *packer, uint64_t length, const struct attributes *attributes) {
  size_t begun = frame_begin(packer, FRAME_BODY, 0);
  put_u64(packer, length);
  put_attributes(packer, attributes);
  frame_complete(packer, begun);
}

void put_found(struct packer *packer, uint8_t type, const char *path) {
  put_u8(packer, type);
  put_text(packer, path);
}

void put_change(struct packer *packer, uint8_t change, bool is_directory, const char *path) {
  put_u8(packer, change);
  put_u8(packer, is_directory ? TYPE_DIRECTORY : TYPE_FILE);
  put_text(packer, path);
}

static void put_address(struct packer *packer, const struct socket_address *address) {
  put_bytes(packer, address->bytes, sizeof address->bytes);
  put_u32(packer, address->port);
}

void put_socket(struct packer *packer, const struct socket_item *item) {
  put_u32(packer, item->pid);
  put_u8(packer, item->protocol);
  put_u8(packer, item->family);
  put_u8(packer, item->state);
  put_address(packer, &item->local);
  put_address(packer, &item->remote);
  put_text(packer, item->process_name);
}

void encode_failed(struct packer *packer, int error, const char *operation) {
  size_t begun = frame_begin(packer, FRAME_FAILED, 0);
  put_u32(packer, (uint32_t)error);
  put_text(packer, operation);
  frame_complete(packer, begun);
}
