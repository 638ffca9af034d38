// Replaces the init by another binary, in place: its bytes come from the host, are tried out in a child, and take over by exec.
#ifndef CATNAP_UPGRADE_H
#define CATNAP_UPGRADE_H

#include <sys/types.h>

#include "messages.h"
#include "state.h"

// Keeps a piece of the binary; what is wrong with it is told when the upgrade is asked for.
void upgrade_receive(const struct binary_piece *piece);
// Begins to try the binary out. The answer comes later, and from the new init when it succeeds. False while another is tried out.
bool upgrade_begin(uint32_t request, uint32_t size);
// The connection that asked is gone.
void upgrade_cancel(void);
// Whether it was the child that tries the binary out.
bool upgrade_child_ended(pid_t pid, int status);
// Decides about a trial that is over; does not return when the other binary took over.
void upgrade_turn(void);
// Milliseconds until the trial has taken too long; -1 without one.
int upgrade_timeout(void);
// In the init that took over.
void upgrade_succeeded(const struct upgrade_origin *origin);
// An answer by this init; without a step, of success.
struct upgrade_message upgrade_outcome(uint32_t request, const char *step, uint32_t value);
// An answer that is due, once.
bool upgrade_answer(struct upgrade_message *message);
// What the binary does in the trial: understands the state on descriptor 3 or not. An exit code.
int upgrade_check(void);

#endif
