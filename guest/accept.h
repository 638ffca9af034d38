// The listening socket on descriptor 3 and connections that have not said yet what they are.
#ifndef CATNAP_ACCEPT_H
#define CATNAP_ACCEPT_H

#include <stdbool.h>

#include "state.h"

bool accept_open(int listening_fd);
// Whether descriptors or memory were refused: call accept_retry after a while.
bool accept_starved(void);
void accept_retry(void);

void accept_save(struct state_writer *writer);
// Instead of accept_open, after an upgrade.
bool accept_load(struct state_reader *reader);

#endif
