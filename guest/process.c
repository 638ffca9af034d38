// The table of processes a host started.
#include "process.h"

#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "output.h"

static struct process **table;
static uint32_t count;
static uint32_t capacity;
static uint32_t last_channel;

static bool table_has_room(void) {
  if (count < capacity) return true;
  uint32_t wanted = capacity == 0 ? 16 : capacity * 2;
  struct process **grown = realloc(table, wanted * sizeof *table);
  if (grown == NULL) return false;
  table = grown;
  capacity = wanted;
  return true;
}

struct process *process_add(const char *token) {
  if (count >= PROCESSES_MAX || !table_has_room()) return NULL;
  struct process *process = calloc(1, sizeof *process);
  if (process == NULL) return NULL;
  strncpy(process->token, token, TOKEN_MAX);
  do last_channel++;
  while (last_channel == 0 || process_by_channel(last_channel) != NULL);
  process->channel = last_channel;
  process->exec_report.fd = -1;
  process->failed_step = "";
  stream_begin(&process->streams[0], process, 1);
  stream_begin(&process->streams[1], process, 2);
  input_begin(&process->input);
  table[count++] = process;
  return process;
}

void process_forget(struct process *process) {
  for (uint32_t i = 0; i < count; i++) {
    if (table[i] != process) continue;
    table[i] = table[--count];
    break;
  }
  loop_close(&process->exec_report);
  process->input.answer_due = false;
  input_close(process);
  stream_release(&process->streams[0]);
  stream_release(&process->streams[1]);
  loop_bury(&process->grave);
}

struct process *process_by_token(const char *token) {
  for (uint32_t i = 0; i < count; i++) {
    if (table[i]->state != PROCESS_FORGOTTEN && strcmp(table[i]->token, token) == 0) return table[i];
  }
  return NULL;
}

struct process *process_by_channel(uint32_t channel) {
  for (uint32_t i = 0; i < count; i++) {
    if (table[i]->state != PROCESS_FORGOTTEN && table[i]->channel == channel) return table[i];
  }
  return NULL;
}

struct process *process_by_pid(pid_t pid) {
  for (uint32_t i = 0; i < count; i++) {
    enum process_state state = table[i]->state;
    if (table[i]->pid == pid && (state == PROCESS_STARTING || state == PROCESS_RUNNING)) return table[i];
  }
  return NULL;
}

uint32_t process_count(void) { return count; }

struct process *process_at(uint32_t index) { return table[index]; }

uint32_t *process_last_channel(void) { return &last_channel; }
