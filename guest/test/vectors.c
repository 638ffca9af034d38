// The guest's side of test/guest/vectors.json. `vectors decode` reads frames in hexadecimal, one a line, and prints as JSON what the
// guest understands; `vectors encode` prints `name hex` for every message the guest sends, made from the values in that file.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "messages.h"
#include "protocol.h"

enum { LINE_MAX_BYTES = 64 * 1024 };

static void print_texts(const char *name, const struct text_list *list) {
  char **texts = calloc((size_t)list->count + 1, sizeof *texts);
  if (texts == NULL) exit(1);
  text_vector(list, texts);
  printf(",\"%s\":[", name);
  for (uint32_t i = 0; i < list->count; i++) printf("%s\"%s\"", i == 0 ? "" : ",", texts[i]);
  printf("]");
  free(texts);
}

static void print_file_request(const struct file_request *request) {
  if (request->path != NULL) printf(",\"path\":\"%s\"", request->path);
  switch (request->type) {
    case FRAME_LIST:
      printf(",\"entriesMax\":%" PRIu32, request->entries_max);
      break;
    case FRAME_READ:
      printf(",\"offset\":%" PRIu64, request->offset);
      if (request->length != UINT64_MAX) printf(",\"length\":%" PRIu64, request->length);
      break;
    case FRAME_WALK:
      printf(",\"flags\":%u,\"entriesMax\":%" PRIu32, request->flags, request->entries_max);
      print_texts("excludeDirs", &request->names);
      break;
    case FRAME_SOCKETS:
      printf(",\"pid\":%" PRIu32, request->pid);
      break;
    case FRAME_WATCH:
    case FRAME_REMOVE:
      printf(",\"recursive\":%s", request->recursive ? "true" : "false");
      break;
    case FRAME_CONCATENATE:
      print_texts("sources", &request->sources);
      break;
    case FRAME_CONNECT:
      printf(",\"port\":%u", request->port);
      break;
    case FRAME_CONNECT_TO:
      printf(",\"port\":%u,\"host\":\"%s\"", request->port, request->host);
      break;
    default:
      break;
  }
  if (request->has_mode) printf(",\"mode\":%" PRIu32, request->mode);
}

// Prints the members of a frame the guest accepts.
static bool print_message(struct frame_header header, const uint8_t *payload) {
  struct spawn_request spawn;
  struct signal_request signal;
  struct input_request input;
  struct resize_request resize;
  struct binary_piece piece;
  uint32_t size;
  struct ack ack;
  struct file_request request;
  switch (header.type) {
    case FRAME_RESUME:
    case FRAME_EXIT_ACK:
    case FRAME_PING:
    case FRAME_END:
      return header.length == 0;
    case FRAME_DATA:
      printf(",\"bytes\":\"%.*s\"", (int)header.length, (const char *)payload);
      return header.length <= DATA_PAYLOAD_MAX;
    case FRAME_SPAWN:
      if (!decode_spawn(payload, header.length, &spawn)) return false;
      printf(",\"token\":\"%s\",\"workingDir\":\"%s\"", spawn.token, spawn.working_dir);
      print_texts("argv", &spawn.arguments);
      print_texts("environment", &spawn.environment);
      if (spawn.input == INPUT_PIPE) printf(",\"stdin\":\"pipe\"");
      if (spawn.input == INPUT_TERMINAL) printf(",\"terminal\":{\"columns\":%u,\"rows\":%u}", spawn.columns, spawn.rows);
      return true;
    case FRAME_SIGNAL:
      if (!decode_signal(payload, header.length, &signal)) return false;
      printf(",\"token\":\"%s\",\"signal\":%" PRIu32, signal.token, signal.number);
      return true;
    case FRAME_INPUT:
      if (!decode_input(payload, header.length, &input)) return false;
      printf(",\"token\":\"%s\",\"offset\":%" PRIu64 ",\"last\":%s", input.token, input.offset, input.last ? "true" : "false");
      printf(",\"bytes\":\"%.*s\"", (int)input.length, (const char *)input.bytes);
      return true;
    case FRAME_RESIZE:
      if (!decode_resize(payload, header.length, &resize)) return false;
      printf(",\"token\":\"%s\",\"columns\":%u,\"rows\":%u", resize.token, resize.columns, resize.rows);
      return true;
    case FRAME_BINARY:
      if (!decode_binary(payload, header.length, &piece)) return false;
      printf(",\"offset\":%" PRIu32 ",\"bytes\":\"%.*s\"", piece.offset, (int)piece.length, (const char *)piece.bytes);
      return true;
    case FRAME_UPGRADE:
      size = decode_upgrade(payload, header.length);
      printf(",\"size\":%" PRIu32, size);
      return size > 0;
    case FRAME_WINDOW:
      size = decode_window(payload, header.length);
      printf(",\"bytes\":%" PRIu32, size);
      return size > 0;
    case FRAME_ACK:
      if (!decode_ack(payload, header.length, &ack)) return false;
      printf(",\"stream\":%u,\"offset\":%" PRIu64, ack.stream, ack.offset);
      return true;
    default:
      if (!decode_file_request(header.type, payload, header.length, &request)) return false;
      print_file_request(&request);
      return true;
  }
}

static size_t read_hex(const char *line, uint8_t *bytes) {
  size_t length = 0;
  unsigned value;
  while (sscanf(line + 2 * length, "%2x", &value) == 1) bytes[length++] = (uint8_t)value;
  return length;
}

static void decode_lines(void) {
  static char line[LINE_MAX_BYTES];
  static uint8_t bytes[LINE_MAX_BYTES / 2];
  while (fgets(line, sizeof line, stdin) != NULL) {
    size_t length = read_hex(line, bytes);
    if (length == HELLO_BYTES) {
      printf("{\"kind\":%d}\n", decode_hello(bytes));
      continue;
    }
    struct frame_header header = {0};
    if (length >= FRAME_HEADER_BYTES) header = read_frame_header(bytes);
    printf("{\"type\":%u,\"channel\":%" PRIu32, header.type, header.channel);
    bool fine = length == FRAME_HEADER_BYTES + (size_t)header.length && print_message(header, bytes + FRAME_HEADER_BYTES);
    printf("%s}\n", fine ? "" : ",\"invalid\":true");
  }
}

static uint8_t encoded[4096];
static struct packer packer = {.start = encoded, .max = sizeof encoded};

static void print_encoded(const char *name) {
  if (packer.full) exit(1);
  printf("%s ", name);
  for (size_t i = 0; i < packer.length; i++) printf("%02x", encoded[i]);
  printf("\n");
  packer.length = 0;
}

static void encode_control_messages(void) {
  encode_hello(encoded, KIND_CONTROL);
  packer.length = HELLO_BYTES;
  print_encoded("hello answer");
  encode_process(&packer, &(struct process_message){.channel = 7, .pid = 4242, .acked = {65536, 12}, .token = "build1"});
  print_encoded("process running");
  encode_process(&packer, &(struct process_message){
                              .channel = 8, .pid = 4243, .end_kind = END_SIGNAL, .end_value = 9, .token = "build2"});
  print_encoded("process ended");
  encode_process(&packer, &(struct process_message){.channel = 9,
                                                    .pid = 4244,
                                                    .acked = {65536, 0},
                                                    .token = "build3",
                                                    .input = INPUT_TERMINAL,
                                                    .input_open = true,
                                                    .input_taken = 70000});
  print_encoded("process on a terminal");
  encode_empty(&packer, FRAME_LISTED, 0);
  print_encoded("listed");
  encode_spawned(&packer, 21, 0, 4242, 7, "");
  print_encoded("spawned");
  encode_spawned(&packer, 22, 2, 0, 0, "chdir");
  print_encoded("spawned failed");
  encode_errno(&packer, FRAME_SIGNALLED, 23, 3);
  print_encoded("signalled");
  encode_output_head(&packer, 7, 2, 12, 5);
  put_bytes(&packer, "oops\n", 5);
  print_encoded("output");
  encode_exit(&packer, 7, END_CODE, 137);
  print_encoded("exit with a code");
  encode_exit(&packer, 8, END_SIGNAL, 9);
  print_encoded("exit by a signal");
  encode_empty(&packer, FRAME_PONG, 24);
  print_encoded("pong");
  encode_taken(&packer, 25, 11, 65543);
  print_encoded("taken");
  encode_errno(&packer, FRAME_RESIZED, 27, 25);
  print_encoded("resized");
  struct upgrade_message upgrade = {.request = 28, .step = "", .from = "0123456789ab", .to = "cdef01234567", .revision = 2};
  encode_upgraded(&packer, &upgrade);
  print_encoded("upgraded");
  upgrade = (struct upgrade_message){
      .request = 29, .step = "exec", .value = 8, .from = "0123456789ab", .to = "0123456789ab", .revision = 2};
  encode_upgraded(&packer, &upgrade);
  print_encoded("upgrade refused");
}

static void encode_worker_messages(void) {
  struct attributes file = {
      .type = TYPE_FILE,
      .mode = 0644,
      .uid = 1000,
      .gid = 100,
      .size = 5000000000,
      .modified_at_ms = -1,
      .owner = "ada",
      .group = "users",
      .name = "caf\xc3\xa9.txt",
  };
  struct attributes directory = {
      .type = TYPE_DIRECTORY,
      .mode = 01777,
      .size = 4096,
      .modified_at_ms = 1700000000123,
      .owner = "root",
      .group = "root",
      .name = "tmp",
  };
  encode_empty(&packer, FRAME_DONE, 0);
  print_encoded("done");
  encode_attributes(&packer, &file);
  print_encoded("attributes");
  size_t begun = frame_begin(&packer, FRAME_ENTRIES, 0);
  put_attributes(&packer, &file);
  put_attributes(&packer, &directory);
  frame_complete(&packer, begun);
  print_encoded("entries");
  encode_body(&packer, 4096, &file);
  print_encoded("body");
  encode_failed(&packer, 28, "write");
  print_encoded("failed");
}

static void encode_item_messages(void) {
  size_t begun = frame_begin(&packer, FRAME_FOUND, 0);
  put_found(&packer, TYPE_FILE, "src/caf\xc3\xa9.txt");
  put_found(&packer, TYPE_DIRECTORY, "src");
  frame_complete(&packer, begun);
  print_encoded("found");
  encode_empty(&packer, FRAME_FOUND, 0);
  print_encoded("nothing found yet");
  begun = frame_begin(&packer, FRAME_CHANGES, 0);
  put_change(&packer, CHANGE_CREATE, true, "src");
  put_change(&packer, CHANGE_OVERFLOW, false, "");
  frame_complete(&packer, begun);
  print_encoded("changes");
  begun = frame_begin(&packer, FRAME_SOCKET_LIST, 0);
  put_socket(&packer, &(struct socket_item){
                          .pid = 42,
                          .protocol = PROTOCOL_TCP,
                          .family = 4,
                          .state = 10,
                          .local = {.bytes = {127, 0, 0, 1}, .port = 8080},
                          .process_name = "node",
                      });
  put_socket(&packer, &(struct socket_item){
                          .protocol = PROTOCOL_UDP,
                          .family = 6,
                          .state = 7,
                          .local = {.bytes = {0xfe, 0x80, [15] = 1}, .port = 53},
                          .process_name = "",
                      });
  frame_complete(&packer, begun);
  print_encoded("socket list");
}

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "decode") == 0) {
    decode_lines();
    return 0;
  }
  if (count == 2 && strcmp(arguments[1], "encode") == 0) {
    encode_control_messages();
    encode_worker_messages();
    encode_item_messages();
    return 0;
  }
  fprintf(stderr, "usage: vectors decode|encode\n");
  return 2;
}
