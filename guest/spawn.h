// Starting programs and signalling their process groups.
#ifndef CATNAP_SPAWN_H
#define CATNAP_SPAWN_H

#include "messages.h"
#include "process.h"

// Forks; whether the exec succeeds is known later, and told in a turn of the process. An errno and its step when not even the fork did.
int spawn_process(const struct spawn_request *request, struct process **started, const char **step);
// Learns how the exec went, at the latest when the process was reaped.
void spawn_settle(struct process *process);
// The same text as one of the steps a start may fail at; NULL when it is none.
const char *spawn_step(const char *name);
// Waits for how the exec goes.
void spawn_await(struct process *process, int report_fd);
// Signals the whole group; ESRCH when the process has ended.
int spawn_signal(const char *token, int number);

#endif
