// What a host writes to processes: into their pipe or terminal at once, or not at all, so that nothing waits in the init.
#ifndef CATNAP_INPUT_H
#define CATNAP_INPUT_H

#include "messages.h"
#include "process.h"
#include "state.h"

void input_begin(struct input *input);
// A pipe's writing end, or a descriptor of a terminal's other side; `terminal` is the terminal itself, else -1.
void input_open(struct process *process, uint8_t kind, int fd, int terminal);
// Gives bytes to the process. The answer comes in a turn of the process: at once, or when what was not taken has room.
void input_write(struct process *process, const struct input_request *request, uint32_t channel);
// Puts the answer if it is ready.
void input_put(struct process *process, struct packer *packer);
// No more input. The program reads its end; a terminal goes on for output.
void input_close(struct process *process);
void input_save(struct state_writer *writer, const struct input *input);
bool input_load(struct state_reader *reader, struct input *input);
// An errno.
int input_resize(struct process *process, uint16_t columns, uint16_t rows);

#endif
