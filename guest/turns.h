// The queue of processes with something to send: each gets a turn, so that none keeps the others waiting.
#ifndef CATNAP_TURNS_H
#define CATNAP_TURNS_H

#include "process.h"

// Queues the process unless it is queued.
void turns_add(struct process *process);
// NULL when none is queued.
struct process *turns_take(void);
bool turns_waiting(void);

#endif
