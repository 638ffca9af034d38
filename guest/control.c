// The control connection: commands are read while answers fit, and what processes have to say is sent in turns.
#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.h"
#include "messages.h"
#include "outbox.h"
#include "output.h"
#include "spawn.h"
#include "turns.h"
#include "upgrade.h"

enum { INPUT_BYTES = 16 * 1024 };

static void control_ready(struct source *source, uint32_t events);

static struct source connection = {.fd = -1, .ready = control_ready};
static bool resumed;
static bool listing;

static uint8_t input[INPUT_BYTES];
static size_t input_length;
// A frame longer than the input buffer is collected in memory of its own.
static uint8_t *long_frame;
static size_t long_frame_length;
static size_t long_frame_filled;

static void drop_long_frame(void) {
  if (long_frame != NULL) munmap(long_frame, long_frame_length);
  long_frame = NULL;
}

static void disconnect(void) {
  loop_close(&connection);
  resumed = listing = false;
  input_length = 0;
  outbox_clear();
  drop_long_frame();
  upgrade_cancel();
  for (uint32_t i = process_count(); i > 0; i--) {
    struct process *process = process_at(i - 1);
    process->announced = process->exit_sent = process->answer_due = process->input.answer_due = false;
    stream_rewind(&process->streams[0]);
    stream_rewind(&process->streams[1]);
    turns_add(process);
  }
}

void control_adopt(int fd) {
  disconnect();
  connection.fd = fd;
  uint8_t hello[HELLO_BYTES];
  encode_hello(hello, KIND_CONTROL);
  struct packer packer = outbox_packer();
  put_bytes(&packer, hello, sizeof hello);
  outbox_add(&packer);
  if (!loop_watch(&connection, EPOLLIN)) disconnect();
}

// Sends what is composed; false when the socket takes no more now or is gone.
static bool flush(void) {
  enum flush_result result = outbox_flush(connection.fd);
  if (result == FLUSH_GONE) disconnect();
  return result == FLUSH_DONE;
}

static void put_process(struct packer *packer, struct process *process) {
  struct process_message message = {
      .channel = process->channel,
      .pid = (uint32_t)process->pid,
      .acked = {process->streams[0].acked, process->streams[1].acked},
      .end_kind = process->end_kind,
      .end_value = process->end_value,
      .token = process->token,
      .input = process->input.kind,
      .input_open = process->input.source.fd >= 0,
      .input_taken = process->input.taken,
  };
  encode_process(packer, &message);
  process->announced = true;
}

// Frees a process taken from the queue when nothing more can be said about it.
static void forget_if_over(struct process *process) {
  if (process->state == PROCESS_FAILED || process->state == PROCESS_FORGOTTEN) process_forget(process);
}

// Sends one turn of a process; whether it has more to send.
static bool put_turn(struct process *process) {
  struct packer packer = outbox_packer();
  if (process->state == PROCESS_FORGOTTEN) process->failure = ESRCH;
  bool known = process->state == PROCESS_RUNNING || process->state == PROCESS_ENDED;
  if (known && resumed && !process->announced) put_process(&packer, process);
  if (process->answer_due && process->state != PROCESS_STARTING) {
    if (known) encode_spawned(&packer, process->answer_request, 0, (uint32_t)process->pid, process->channel, "");
    else encode_spawned(&packer, process->answer_request, process->failure, 0, 0, process->failed_step);
    process->answer_due = false;
  }
  input_put(process, &packer);
  bool more = false;
  if (known && resumed && !listing) {
    more = stream_put(&process->streams[0], &packer) || stream_put(&process->streams[1], &packer);
    bool complete = stream_sent(&process->streams[0]) && stream_sent(&process->streams[1]);
    if (!more && process->state == PROCESS_ENDED && complete && !process->exit_sent) {
      encode_exit(&packer, process->channel, process->end_kind, process->end_value);
      process->exit_sent = true;
    }
  }
  outbox_add(&packer);
  forget_if_over(process);
  return more;
}

static void end_listing(void) {
  struct packer packer = outbox_packer();
  encode_empty(&packer, FRAME_LISTED, 0);
  outbox_add(&packer);
  listing = false;
  for (uint32_t i = 0; i < process_count(); i++) turns_add(process_at(i));
}

static void handle_spawn(uint32_t channel, const uint8_t *payload, size_t length) {
  struct spawn_request request;
  struct packer packer = outbox_packer();
  if (!decode_spawn(payload, length, &request)) {
    encode_spawned(&packer, channel, EINVAL, 0, 0, "request");
    outbox_add(&packer);
    return;
  }
  struct process *process = process_by_token(request.token);
  if (process == NULL) {
    const char *step = "";
    int error = spawn_process(&request, &process, &step);
    if (error != 0) {
      encode_spawned(&packer, channel, error, 0, 0, step);
      outbox_add(&packer);
      return;
    }
  }
  process->answer_due = true;
  process->answer_request = channel;
  turns_add(process);
}

static bool handle_ack(uint32_t channel, const uint8_t *payload, size_t length) {
  struct ack ack;
  if (!decode_ack(payload, length, &ack)) return false;
  struct process *process = process_by_channel(channel);
  return process == NULL || stream_ack(&process->streams[ack.stream - 1], ack.offset);
}

static void handle_signal(uint32_t channel, const uint8_t *payload, size_t length) {
  struct signal_request request;
  int error = decode_signal(payload, length, &request) ? spawn_signal(request.token, (int)request.number) : EINVAL;
  struct packer packer = outbox_packer();
  encode_errno(&packer, FRAME_SIGNALLED, channel, error);
  outbox_add(&packer);
}

static bool is_running(const struct process *process) {
  return process != NULL && (process->state == PROCESS_STARTING || process->state == PROCESS_RUNNING);
}

static void handle_input(uint32_t channel, const uint8_t *payload, size_t length) {
  struct input_request request;
  struct packer packer = outbox_packer();
  bool fine = decode_input(payload, length, &request);
  struct process *process = fine ? process_by_token(request.token) : NULL;
  if (process == NULL || process->state == PROCESS_FAILED) {
    encode_taken(&packer, channel, fine ? ESRCH : EINVAL, 0);
    outbox_add(&packer);
    return;
  }
  // One of a process waits at a time: a newer one answers it.
  struct input *waiting = &process->input;
  if (waiting->answer_due) {
    int error = waiting->answer_ready ? waiting->answer_error : EAGAIN;
    encode_taken(&packer, waiting->answer_request, error, waiting->taken);
    outbox_add(&packer);
  }
  input_write(process, &request, channel);
}

static void handle_resize(uint32_t channel, const uint8_t *payload, size_t length) {
  struct resize_request request;
  int error = EINVAL;
  if (decode_resize(payload, length, &request)) {
    struct process *process = process_by_token(request.token);
    error = is_running(process) ? input_resize(process, request.columns, request.rows) : ESRCH;
  }
  struct packer packer = outbox_packer();
  encode_errno(&packer, FRAME_RESIZED, channel, error);
  outbox_add(&packer);
}

static void handle_upgrade(uint32_t channel, const uint8_t *payload, size_t length) {
  if (upgrade_begin(channel, decode_upgrade(payload, length))) return;
  struct packer packer = outbox_packer();
  struct upgrade_message busy = upgrade_outcome(channel, "busy", EBUSY);
  encode_upgraded(&packer, &busy);
  outbox_add(&packer);
}

// False when the frame breaks the protocol.
static bool handle(struct frame_header header, const uint8_t *payload) {
  switch (header.type) {
    case FRAME_RESUME:
      if (resumed) return false;
      resumed = listing = true;
      for (uint32_t i = 0; i < process_count(); i++) turns_add(process_at(i));
      return header.length == 0;
    case FRAME_SPAWN:
      handle_spawn(header.channel, payload, header.length);
      return true;
    case FRAME_SIGNAL:
      handle_signal(header.channel, payload, header.length);
      return true;
    case FRAME_INPUT:
      handle_input(header.channel, payload, header.length);
      return true;
    case FRAME_RESIZE:
      handle_resize(header.channel, payload, header.length);
      return true;
    case FRAME_BINARY: {
      struct binary_piece piece;
      if (!decode_binary(payload, header.length, &piece)) return false;
      upgrade_receive(&piece);
      return true;
    }
    case FRAME_UPGRADE:
      handle_upgrade(header.channel, payload, header.length);
      return true;
    case FRAME_ACK:
      return handle_ack(header.channel, payload, header.length);
    case FRAME_EXIT_ACK: {
      struct process *process = process_by_channel(header.channel);
      if (process == NULL || !process->exit_sent) return false;
      // It may be in the queue: its turn there frees it.
      process->state = PROCESS_FORGOTTEN;
      turns_add(process);
      return header.length == 0;
    }
    case FRAME_PING: {
      struct packer packer = outbox_packer();
      encode_empty(&packer, FRAME_PONG, header.channel);
      outbox_add(&packer);
      return header.length == 0;
    }
    default:
      return false;
  }
}

// Handles the whole frames in the input buffer while answers to them fit.
static bool handle_received(void) {
  size_t at = 0;
  bool fine = true;
  while (fine && input_length - at >= FRAME_HEADER_BYTES && outbox_room() >= ANSWER_BYTES && !listing) {
    struct frame_header header = read_frame_header(input + at);
    if (header.length > CONTROL_PAYLOAD_MAX) return false;
    size_t whole = FRAME_HEADER_BYTES + (size_t)header.length;
    if (input_length - at < whole) {
      if (whole <= INPUT_BYTES) break;
      long_frame = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (long_frame == MAP_FAILED) {
        long_frame = NULL;
        return false;
      }
      long_frame_length = whole;
      long_frame_filled = input_length - at;
      memcpy(long_frame, input + at, long_frame_filled);
      at = input_length;
      break;
    }
    fine = handle(header, input + at + FRAME_HEADER_BYTES);
    at += whole;
  }
  memmove(input, input + at, input_length - at);
  input_length -= at;
  return fine;
}

// Whether the input buffer holds more work, left there because answers did not fit.
static bool has_whole_frame(void) {
  if (input_length < FRAME_HEADER_BYTES) return false;
  return input_length - FRAME_HEADER_BYTES >= read_frame_header(input).length;
}

// Gives every queued process its turns; false when the socket takes no more now or is gone.
static bool put_turns(void) {
  bool flowing = true;
  while (connection.fd >= 0 && flowing && (turns_waiting() || listing)) {
    if (outbox_room() < OUTPUT_CHUNK_MAX + ANSWER_BYTES) {
      flowing = flush();
      continue;
    }
    struct process *process = turns_take();
    if (process != NULL && put_turn(process)) turns_add(process);
    if (listing && !turns_waiting()) end_listing();
  }
  return connection.fd >= 0 && flowing && flush();
}

static void put_upgrade_answer(void) {
  struct upgrade_message message;
  if (outbox_room() < ANSWER_BYTES || !upgrade_answer(&message)) return;
  struct packer packer = outbox_packer();
  encode_upgraded(&packer, &message);
  outbox_add(&packer);
}

void control_pump(void) {
  bool flowing = true;
  do {
    if (connection.fd >= 0 && !handle_received()) disconnect();
    if (connection.fd >= 0) put_upgrade_answer();
    flowing = put_turns();
  } while (flowing && (turns_waiting() || has_whole_frame()));
  if (connection.fd < 0) {
    struct process *process;
    while ((process = turns_take()) != NULL) forget_if_over(process);
    return;
  }
  uint32_t wanted = flowing ? 0 : EPOLLOUT;
  if (outbox_room() >= ANSWER_BYTES && !listing) wanted |= EPOLLIN;
  loop_watch(&connection, wanted);
}

static bool receive(void) {
  bool is_long = long_frame != NULL;
  uint8_t *at = is_long ? long_frame + long_frame_filled : input + input_length;
  size_t wanted = is_long ? long_frame_length - long_frame_filled : INPUT_BYTES - input_length;
  if (wanted > 0) {
    ssize_t got = recv(connection.fd, at, wanted, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    if (is_long) long_frame_filled += (size_t)got;
    else input_length += (size_t)got;
  }
  if (!is_long) return true;
  if (long_frame_filled < long_frame_length) return true;
  bool fine = handle(read_frame_header(long_frame), long_frame + FRAME_HEADER_BYTES);
  drop_long_frame();
  return fine;
}

static void control_ready(struct source *source, uint32_t events) {
  if ((events & ~(uint32_t)EPOLLOUT) == 0 || source->fd < 0) return;
  if (!receive()) disconnect();
}

void control_save(struct state_writer *writer) {
  state_put_fd(writer, connection.fd);
  struct packer *packer = state_room(writer, 16);
  put_u8(packer, resumed ? 1 : 0);
  put_u8(packer, listing ? 1 : 0);
  put_u32(packer, (uint32_t)input_length);
  state_put_bytes(writer, input, input_length);
  packer = state_room(writer, 16);
  put_u32(packer, long_frame == NULL ? 0 : (uint32_t)long_frame_length);
  put_u32(packer, long_frame == NULL ? 0 : (uint32_t)long_frame_filled);
  if (long_frame != NULL) state_put_bytes(writer, long_frame, long_frame_filled);
  outbox_save(writer);
}

static bool load_long_frame(struct state_reader *reader) {
  size_t length = state_take_count(reader, FRAME_HEADER_BYTES + CONTROL_PAYLOAD_MAX);
  size_t filled = state_take_count(reader, (uint32_t)length);
  const uint8_t *bytes = take_bytes(&reader->cursor, filled);
  if (bytes == NULL || length == 0) return !reader->cursor.bad;
  if (filled < FRAME_HEADER_BYTES || read_frame_header(bytes).length + (size_t)FRAME_HEADER_BYTES != length) return false;
  long_frame = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (long_frame == MAP_FAILED) {
    long_frame = NULL;
    return false;
  }
  memcpy(long_frame, bytes, filled);
  long_frame_length = length;
  long_frame_filled = filled;
  return true;
}

bool control_load(struct state_reader *reader) {
  connection.fd = state_take_fd(reader);
  resumed = state_take_bool(reader);
  listing = state_take_bool(reader);
  input_length = state_take_count(reader, INPUT_BYTES);
  const uint8_t *saved = take_bytes(&reader->cursor, input_length);
  if (saved == NULL) return false;
  memcpy(input, saved, input_length);
  if (!load_long_frame(reader) || !outbox_load(reader)) return false;
  if (connection.fd >= 0 && !loop_watch(&connection, EPOLLIN)) disconnect();
  return true;
}
