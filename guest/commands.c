// What a host asks for on the control connection, and the answers that can be given at once.
#include "commands.h"

#include <errno.h>

#include "control.h"
#include "input.h"
#include "messages.h"
#include "outbox.h"
#include "output.h"
#include "spawn.h"
#include "turns.h"
#include "upgrade.h"

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

bool command_handle(struct frame_header header, const uint8_t *payload) {
  switch (header.type) {
    case FRAME_RESUME:
      return header.length == 0 && control_resume();
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
    case FRAME_WINDOW: {
      uint32_t window = decode_window(payload, header.length);
      if (window == 0) return false;
      output_set_window(window);
      return true;
    }
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
