// The event loop of PID 1: descriptors with a function each, and memory that is freed only after a turn's events are handled.
#ifndef CATNAP_LOOP_H
#define CATNAP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

// `ready` treats its call as a hint: descriptors are non-blocking, and an event may be of a descriptor closed since.
struct source {
  int fd;
  uint32_t events;
  void (*ready)(struct source *source, uint32_t events);
};

// First member of everything that is freed while events may still point at it.
struct grave {
  struct grave *next;
};

bool loop_open(void);
// Sets what is waited for; 0 stops waiting, also for hang-ups, which cannot be masked otherwise.
bool loop_watch(struct source *source, uint32_t events);
// Stops waiting and closes the descriptor.
void loop_close(struct source *source);
void loop_bury(struct grave *grave);
// Waits for events, at most `timeout_ms` (-1: for ever), and handles them.
void loop_turn(int timeout_ms);

#endif
