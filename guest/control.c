// The control connection: commands are read while answers fit, and what processes have to say is sent in turns.
#include "control.h"

#include <errno.h>
#include <sys/epoll.h>

#include "commands.h"
#include "inbox.h"
#include "input.h"
#include "messages.h"
#include "outbox.h"
#include "output.h"
#include "turns.h"
#include "upgrade.h"

static void control_ready(struct source *source, uint32_t events);

static struct source connection = {.fd = -1, .ready = control_ready};
static bool resumed;
static bool listing;

static void disconnect(void) {
  loop_close(&connection);
  resumed = listing = false;
  inbox_clear();
  outbox_clear();
  upgrade_cancel();
  output_set_window(WINDOW_BYTES);
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

bool control_resume(void) {
  if (resumed) return false;
  resumed = listing = true;
  for (uint32_t i = 0; i < process_count(); i++) turns_add(process_at(i));
  return true;
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

// One frame of a stream's output, long ones straight from its ring; whether there was any.
static bool put_output(struct stream *stream, struct packer *packer) {
  struct iovec piece[2];
  int piece_count = stream_put(stream, packer, piece);
  if (piece_count == 0) return false;
  outbox_add(packer);
  if (outbox_send(connection.fd, piece, piece_count) == FLUSH_GONE) disconnect();
  return true;
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
  if (known && resumed && !listing) {
    if (put_output(&process->streams[0], &packer) || put_output(&process->streams[1], &packer)) return true;
    bool complete = stream_sent(&process->streams[0]) && stream_sent(&process->streams[1]);
    if (process->state == PROCESS_ENDED && complete && !process->exit_sent) {
      encode_exit(&packer, process->channel, process->end_kind, process->end_value);
      process->exit_sent = true;
    }
  }
  outbox_add(&packer);
  forget_if_over(process);
  return false;
}

static void end_listing(void) {
  struct packer packer = outbox_packer();
  encode_empty(&packer, FRAME_LISTED, 0);
  outbox_add(&packer);
  listing = false;
  for (uint32_t i = 0; i < process_count(); i++) turns_add(process_at(i));
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

// Handles the whole frames that have come while answers to them fit; whether more of them wait.
static bool handle_received(void) {
  struct frame_header header;
  const uint8_t *payload;
  enum inbox_result result = INBOX_NONE;
  while (connection.fd >= 0 && (result = inbox_first(&header, &payload)) != INBOX_NONE) {
    if (result == INBOX_FRAME && (outbox_room() < ANSWER_BYTES || listing)) return true;
    if (result == INBOX_BROKEN || !command_handle(header, payload)) disconnect();
    else inbox_drop();
  }
  return false;
}

void control_pump(void) {
  bool flowing = true;
  bool waiting = false;
  do {
    waiting = handle_received();
    if (connection.fd >= 0) put_upgrade_answer();
    flowing = put_turns();
  } while (flowing && (turns_waiting() || waiting));
  if (connection.fd < 0) {
    struct process *process;
    while ((process = turns_take()) != NULL) forget_if_over(process);
    return;
  }
  uint32_t wanted = flowing ? 0 : EPOLLOUT;
  if (outbox_room() >= ANSWER_BYTES && !listing) wanted |= EPOLLIN;
  loop_watch(&connection, wanted);
}

static void control_ready(struct source *source, uint32_t events) {
  if ((events & ~(uint32_t)EPOLLOUT) == 0 || source->fd < 0) return;
  if (!inbox_receive(connection.fd)) disconnect();
}

void control_save(struct state_writer *writer) {
  state_put_fd(writer, connection.fd);
  struct packer *packer = state_room(writer, 2);
  put_u8(packer, resumed ? 1 : 0);
  put_u8(packer, listing ? 1 : 0);
  inbox_save(writer);
  outbox_save(writer);
}

bool control_load(struct state_reader *reader) {
  connection.fd = state_take_fd(reader);
  resumed = state_take_bool(reader);
  listing = state_take_bool(reader);
  if (!inbox_load(reader) || !outbox_load(reader)) return false;
  if (connection.fd >= 0 && !loop_watch(&connection, EPOLLIN)) disconnect();
  return true;
}
