// What a host writes to processes, handed on as far as their pipe or terminal takes it.
#include "input.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "output.h"
#include "turns.h"

static void settle(struct process *process, int error) {
  struct input *input = &process->input;
  if (!input->answer_due || input->answer_ready) return;
  input->answer_ready = true;
  input->answer_error = error;
  turns_add(process);
}

// There is room again, or nobody reads any more, which the next bytes will tell.
static void input_ready(struct source *source, uint32_t events) {
  (void)events;
  loop_watch(source, 0);
  settle((struct process *)((char *)source - offsetof(struct process, input.source)), EAGAIN);
}

void input_begin(struct input *input) {
  input->source = (struct source){.fd = -1, .ready = input_ready};
  input->terminal = -1;
}

void input_open(struct process *process, uint8_t kind, int fd, int terminal) {
  process->input.kind = kind;
  process->input.source.fd = fd;
  process->input.terminal = terminal;
}

void input_close(struct process *process) {
  struct input *input = &process->input;
  loop_close(&input->source);
  if (input->terminal >= 0) close(input->terminal);
  input->terminal = -1;
  settle(process, EPIPE);
}

// Nobody talks to the terminal any more: the kernel sends SIGHUP to those who live on it.
static void hang_up(struct process *process) {
  stream_cut(&process->streams[0]);
  input_close(process);
}

// 0 once everything was taken, EAGAIN when the rest has no room.
static int take(struct process *process, const uint8_t *bytes, size_t length) {
  struct input *input = &process->input;
  while (length > 0) {
    ssize_t written = write(input->source.fd, bytes, length);
    if (written > 0) {
      input->taken += (uint64_t)written;
      bytes += written;
      length -= (size_t)written;
    } else if (written == 0 || errno == EAGAIN) {
      return EAGAIN;
    } else if (errno != EINTR) {
      if (input->kind == INPUT_PIPE) input_close(process);
      return EPIPE;
    }
  }
  return 0;
}

static int write_from(struct process *process, const struct input_request *request) {
  struct input *input = &process->input;
  if (input->kind == INPUT_NONE) return EBADF;
  // A gap; what overlaps was taken before and is not taken again.
  if (request->offset > input->taken) return EINVAL;
  uint64_t known = input->taken - request->offset;
  if (known < request->length) {
    if (input->source.fd < 0) return EPIPE;
    int error = take(process, request->bytes + known, request->length - (size_t)known);
    if (error != 0) return error;
  }
  if (request->last && input->source.fd >= 0) {
    settle(process, 0);
    if (input->kind == INPUT_TERMINAL) hang_up(process);
    else input_close(process);
  }
  return 0;
}

void input_write(struct process *process, const struct input_request *request, uint32_t channel) {
  struct input *input = &process->input;
  input->answer_due = true;
  input->answer_ready = false;
  input->answer_request = channel;
  int error = write_from(process, request);
  if (error == EAGAIN && loop_watch(&input->source, EPOLLOUT)) return;
  settle(process, error);
}

void input_put(struct process *process, struct packer *packer) {
  struct input *input = &process->input;
  bool is_over = process->state == PROCESS_FAILED || process->state == PROCESS_FORGOTTEN;
  if (!input->answer_due || (!input->answer_ready && !is_over)) return;
  encode_taken(packer, input->answer_request, input->answer_ready ? input->answer_error : ESRCH, input->taken);
  input->answer_due = input->answer_ready = false;
}

int input_resize(struct process *process, uint16_t columns, uint16_t rows) {
  struct input *input = &process->input;
  if (input->kind != INPUT_TERMINAL) return ENOTTY;
  if (input->source.fd < 0) return ESRCH;
  struct winsize size = {.ws_col = columns, .ws_row = rows};
  return ioctl(input->source.fd, TIOCSWINSZ, &size) == 0 ? 0 : errno;
}

void input_save(struct state_writer *writer, const struct input *input) {
  struct packer *packer = state_room(writer, 64);
  put_u8(packer, input->kind);
  put_u64(packer, input->taken);
  put_u8(packer, input->answer_due ? 1 : 0);
  put_u8(packer, input->answer_ready ? 1 : 0);
  put_u32(packer, (uint32_t)input->answer_error);
  put_u32(packer, input->answer_request);
  state_put_fd(writer, input->source.fd);
  state_put_fd(writer, input->terminal);
}

bool input_load(struct state_reader *reader, struct input *input) {
  struct cursor *cursor = &reader->cursor;
  input->kind = take_u8(cursor);
  input->taken = take_u64(cursor);
  input->answer_due = state_take_bool(reader);
  input->answer_ready = state_take_bool(reader);
  input->answer_error = (int)take_u32(cursor);
  input->answer_request = take_u32(cursor);
  input->source.fd = state_take_fd(reader);
  input->terminal = state_take_fd(reader);
  if (cursor->bad || input->kind > INPUT_TERMINAL) return false;
  bool waits = input->answer_due && !input->answer_ready && input->source.fd >= 0;
  if (waits && !loop_watch(&input->source, EPOLLOUT)) {
    input->answer_ready = true;
    input->answer_error = EAGAIN;
  }
  return true;
}
