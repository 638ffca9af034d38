// The control connection: the host's commands in, answers, output and ends of processes out.
#ifndef CATNAP_CONTROL_H
#define CATNAP_CONTROL_H

#include "state.h"

// Takes over a connection whose hello was read; an older control connection is closed.
void control_adopt(int fd);
// The host is ready for output: what is held is listed to it first. False when it said so before.
bool control_resume(void);
// Sends what is ready and fits; called once after every turn of the loop.
void control_pump(void);

void control_save(struct state_writer *writer);
bool control_load(struct state_reader *reader);

#endif
