// Workers: one forked process per file operation or tunnel, so that nothing a path or port does can stall PID 1.
#ifndef CATNAP_WORKER_H
#define CATNAP_WORKER_H

#include <sys/types.h>

#include "state.h"

// Forks a worker for the connection; 0, or the errno of why not. The caller closes its descriptor after success.
int worker_start(int fd, int kind);
// Called for every reaped process that no host started.
void worker_ended(pid_t pid);

void worker_save(struct state_writer *writer);
bool worker_load(struct state_reader *reader);

#endif
