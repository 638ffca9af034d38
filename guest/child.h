// What every forked process does first, before it becomes a program or serves a connection.
#ifndef CATNAP_CHILD_H
#define CATNAP_CHILD_H

#include <stdbool.h>

#include "state.h"

enum { DESCRIPTORS_MAX = 65536 };

// Once at start: remembers what children get back and opens what they need.
void child_prepare(void);
void child_save(struct state_writer *writer);
// Instead of child_prepare, after an upgrade.
bool child_load(struct state_reader *reader);
// In a child: empty signal mask, more likely than the init to be killed for want of memory.
void child_begin(void);
// In a child that becomes a program: the limits of descriptors and processes the init was started with.
void child_restore_limits(void);
// Closes every descriptor from `first` on, or only marks them to be closed by exec.
void child_close_from(unsigned first, bool on_exec);
// After a failed exec: every descriptor from `first` on is closed by the next one again.
void child_mark_from(unsigned first);

#endif
