// Pseudo-terminals for processes, from the sandbox's own devpts.
#ifndef CATNAP_TERMINAL_H
#define CATNAP_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

// Once at start: finds the file system of terminals, before anybody could put something else in its place.
void terminal_prepare(void);
void terminal_save(struct state_writer *writer);
bool terminal_load(struct state_reader *reader);
// Both sides of a new terminal, the init's own non-blocking; false with errno.
bool terminal_open(uint16_t columns, uint16_t rows, int *own_side, int *program_side);
// In a child that leads a session: makes the terminal its controlling one.
bool terminal_control(int program_side);

#endif
