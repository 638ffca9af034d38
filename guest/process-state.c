// The table of processes, handed from one init to the next.
#include <string.h>

#include "input.h"
#include "output.h"
#include "process.h"
#include "spawn.h"
#include "turns.h"

static void save_one(struct state_writer *writer, const struct process *process) {
  struct packer *packer = state_room(writer, 256);
  put_text(packer, process->token);
  put_u32(packer, process->channel);
  put_u32(packer, (uint32_t)process->pid);
  put_u8(packer, (uint8_t)process->state);
  put_u32(packer, (uint32_t)process->failure);
  put_text(packer, process->failed_step);
  put_u8(packer, process->end_kind);
  put_u32(packer, process->end_value);
  put_u8(packer, process->announced ? 1 : 0);
  put_u8(packer, process->exit_sent ? 1 : 0);
  put_u8(packer, process->answer_due ? 1 : 0);
  put_u32(packer, process->answer_request);
  state_put_fd(writer, process->exec_report.fd);
  stream_save(writer, &process->streams[0]);
  stream_save(writer, &process->streams[1]);
  input_save(writer, &process->input);
}

void process_save(struct state_writer *writer) {
  struct packer *packer = state_room(writer, 8);
  put_u32(packer, *process_last_channel());
  put_u32(packer, process_count());
  for (uint32_t i = 0; i < process_count(); i++) save_one(writer, process_at(i));
}

static bool load_one(struct state_reader *reader) {
  struct cursor *cursor = &reader->cursor;
  const char *token = take_text(cursor, TOKEN_MAX);
  uint32_t channel = take_u32(cursor);
  if (token == NULL || channel == 0 || process_by_channel(channel) != NULL) return false;
  struct process *process = process_add(token);
  if (process == NULL) return false;
  process->channel = channel;
  process->pid = (pid_t)take_u32(cursor);
  uint8_t state = take_u8(cursor);
  process->state = (enum process_state)state;
  process->failure = (int)take_u32(cursor);
  const char *step = take_text(cursor, TOKEN_MAX);
  process->failed_step = step == NULL ? NULL : spawn_step(step);
  process->end_kind = take_u8(cursor);
  process->end_value = take_u32(cursor);
  process->announced = state_take_bool(reader);
  process->exit_sent = state_take_bool(reader);
  process->answer_due = state_take_bool(reader);
  process->answer_request = take_u32(cursor);
  spawn_await(process, state_take_fd(reader));
  if (cursor->bad || process->pid <= 0 || state > PROCESS_FORGOTTEN || process->failed_step == NULL) return false;
  if (process->end_kind > END_SIGNAL) return false;
  turns_add(process);
  return stream_load(reader, &process->streams[0]) && stream_load(reader, &process->streams[1]) &&
         input_load(reader, &process->input);
}

bool process_load(struct state_reader *reader) {
  uint32_t last_channel = take_u32(&reader->cursor);
  uint32_t count = state_take_count(reader, PROCESSES_MAX);
  // Processes are found by a channel while they are added: none may be given one that comes later.
  *process_last_channel() = last_channel;
  for (uint32_t i = 0; i < count; i++) {
    if (!load_one(reader)) return false;
  }
  *process_last_channel() = last_channel;
  return !reader->cursor.bad;
}
