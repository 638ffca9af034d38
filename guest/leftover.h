// Output pipes of processes that ended while descendants still hold them open.
#ifndef CATNAP_LEFTOVER_H
#define CATNAP_LEFTOVER_H

#include "state.h"

// Reads and throws away what comes, so that a daemon started by an ended process neither blocks nor dies of SIGPIPE.
void leftover_keep(int fd);

void leftover_save(struct state_writer *writer);
bool leftover_load(struct state_reader *reader);

#endif
