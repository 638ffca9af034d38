// The queue of processes with something to send.
#include "turns.h"

#include <stddef.h>

static struct process *first;
static struct process *last;

void turns_add(struct process *process) {
  if (process->is_ready) return;
  process->is_ready = true;
  process->next_ready = NULL;
  if (last == NULL) first = process;
  else last->next_ready = process;
  last = process;
}

struct process *turns_take(void) {
  struct process *process = first;
  if (process == NULL) return NULL;
  first = process->next_ready;
  if (first == NULL) last = NULL;
  process->is_ready = false;
  return process;
}

bool turns_waiting(void) { return first != NULL; }
