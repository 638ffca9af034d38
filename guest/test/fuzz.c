// What the fuzzer checks: every decoder of the guest, fed with anything, stays inside its input and keeps what it promises.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "messages.h"
#include "names.h"
#include "protocol.h"
#include "upload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static void check_text(const char *text, size_t max) { require(text != NULL && strlen(text) <= max); }

static void check_texts(const struct text_list *list, size_t text_max) {
  char **texts = calloc((size_t)list->count + 1, sizeof *texts);
  require(texts != NULL);
  text_vector(list, texts);
  for (uint32_t i = 0; i < list->count; i++) check_text(texts[i], text_max);
  free(texts);
}

static void check_control(uint8_t type, const uint8_t *payload, size_t length) {
  struct spawn_request spawn;
  struct signal_request signal;
  struct input_request input;
  struct resize_request resize;
  struct binary_piece piece;
  struct ack ack;
  if (type == FRAME_SPAWN && decode_spawn(payload, length, &spawn)) {
    check_text(spawn.token, TOKEN_MAX);
    check_text(spawn.working_dir, PATH_TEXT_MAX);
    require(spawn.working_dir[0] == '/' && spawn.token[0] != 0);
    require(spawn.arguments.count > 0 && spawn.arguments.count <= ARGUMENTS_MAX);
    check_texts(&spawn.arguments, length);
    check_texts(&spawn.environment, length);
    require(spawn.input <= INPUT_TERMINAL && (spawn.input == INPUT_TERMINAL) == (spawn.columns > 0 && spawn.rows > 0));
  }
  if (type == FRAME_SIGNAL && decode_signal(payload, length, &signal)) {
    check_text(signal.token, TOKEN_MAX);
    require(signal.number >= 1 && signal.number <= 64);
  }
  if (type == FRAME_INPUT && decode_input(payload, length, &input)) {
    check_text(input.token, TOKEN_MAX);
    require(input.bytes >= payload && input.bytes + input.length == payload + length);
  }
  if (type == FRAME_RESIZE && decode_resize(payload, length, &resize)) {
    check_text(resize.token, TOKEN_MAX);
    require(resize.columns > 0 && resize.rows > 0);
  }
  if (type == FRAME_BINARY && decode_binary(payload, length, &piece)) {
    require(piece.length > 0 && piece.bytes + piece.length == payload + length);
  }
  if (type == FRAME_UPGRADE) require(decode_upgrade(payload, length) <= BINARY_BYTES_MAX);
  if (type == FRAME_WINDOW) {
    uint32_t window = decode_window(payload, length);
    require(window == 0 || window >= WINDOW_BYTES);
  }
  if (type == FRAME_ACK && decode_ack(payload, length, &ack)) require(ack.stream == 1 || ack.stream == 2);
}

static void check_file_request(uint8_t type, const uint8_t *payload, size_t length) {
  struct file_request request;
  if (!decode_file_request(type, payload, length, &request)) return;
  require(request.type == type && request.mode <= 07777);
  if (type == FRAME_CONNECT || type == FRAME_CONNECT_TO) {
    require(request.port != 0);
    if (type == FRAME_CONNECT) return;
    check_text(request.host, HOST_TEXT_MAX);
    require(request.host[0] != 0 && strpbrk(request.host, " %/[]@\n") == NULL);
    return;
  }
  if (type == FRAME_SOCKETS) return;
  check_text(request.path, PATH_TEXT_MAX);
  require(request.path[0] == '/');
  require(request.sources.count <= SOURCES_MAX);
  check_texts(&request.sources, PATH_TEXT_MAX);
  require(request.names.count <= EXCLUDED_NAMES_MAX);
  check_texts(&request.names, NAME_TEXT_MAX);
}

// The content of an upload is the same whether it comes at once or byte by byte.
static void check_upload(const uint8_t *data, size_t size) {
  struct upload whole = {0};
  struct upload split = {0};
  struct cursor piece = {.at = data, .left = size};
  const uint8_t *content;
  size_t length;
  uint64_t total = 0;
  uint64_t split_total = 0;
  enum upload_step step;
  while ((step = upload_next(&whole, &piece, &content, &length)) == UPLOAD_CONTENT) {
    require(length > 0 && content >= data && content + length <= data + size);
    total += length;
  }
  enum upload_step split_step = UPLOAD_MORE;
  for (size_t i = 0; i < size && split_step != UPLOAD_BROKEN; i++) {
    struct cursor byte = {.at = data + i, .left = 1};
    while ((split_step = upload_next(&split, &byte, &content, &length)) == UPLOAD_CONTENT) split_total += length;
  }
  require(step == split_step && total == split_total && whole.ended == split.ended);
}

static void check_names(const uint8_t *data, size_t size) {
  char name[OWNER_TEXT_MAX + 1];
  char *text = malloc(size + 1);
  require(text != NULL);
  if (size > 0) memcpy(text, data, size);
  text[size] = 0;
  if (find_name(text, 1000, name)) require(strlen(name) > 0 && strchr(name, ':') == NULL);
  free(text);
}

// In memory of exactly its size, so that a step beyond it is seen.
static void check_frame(const uint8_t *data, size_t size) {
  struct frame_header header = read_frame_header(data);
  size_t length = size - FRAME_HEADER_BYTES;
  if (header.length < length) length = header.length;
  uint8_t *payload = malloc(length + 1);
  require(payload != NULL);
  memcpy(payload, data + FRAME_HEADER_BYTES, length);
  uint8_t *exact = realloc(payload, length == 0 ? 1 : length);
  require(exact != NULL);
  check_control(header.type, exact, length);
  check_file_request(header.type, exact, length);
  free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size >= HELLO_BYTES) require(decode_hello(data) <= KIND_TUNNEL);
  if (size >= FRAME_HEADER_BYTES) check_frame(data, size);
  check_upload(data, size);
  check_names(data, size);
  return 0;
}
