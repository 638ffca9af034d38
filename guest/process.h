// The processes a host started: from before their exec until the host has acknowledged their end.
#ifndef CATNAP_PROCESS_H
#define CATNAP_PROCESS_H

#include <sys/types.h>

#include "loop.h"
#include "protocol.h"
#include "ring.h"
#include "state.h"

struct process;

// What a process writes to stdout (1) or stderr (2). Offsets count bytes since the process began:
// acked <= sent <= received <= acked + WIDE_WINDOW_BYTES. Bytes from acked to received are in the ring.
struct stream {
  struct source source;
  struct process *process;
  uint8_t number;
  struct ring ring;
  uint64_t acked;
  uint64_t sent;
  uint64_t received;
  // No byte beyond this is delivered; set when the process is reaped.
  uint64_t limit;
  bool is_terminal;
};

// What a process reads. Nothing waits here: what its pipe or terminal does not take stays with the host.
struct input {
  struct source source;
  uint8_t kind;
  // Bytes its pipe or terminal has taken since the process began.
  uint64_t taken;
  // The init's own hold of a terminal, so that nobody hangs it up who closes it for a moment.
  int terminal;
  // A host is owed an answer; it is ready once `answer_ready`, before that it waits for room.
  bool answer_due;
  bool answer_ready;
  int answer_error;
  uint32_t answer_request;
};

enum process_state {
  // Forked; whether the exec succeeded is not known yet.
  PROCESS_STARTING,
  // The exec failed and the host has not been told.
  PROCESS_FAILED,
  PROCESS_RUNNING,
  // Reaped; the rest of its output or the end itself is unacknowledged.
  PROCESS_ENDED,
  // Its end is acknowledged; nothing finds it any more.
  PROCESS_FORGOTTEN,
};

struct process {
  struct grave grave;
  char token[TOKEN_MAX + 1];
  uint32_t channel;
  pid_t pid;
  enum process_state state;
  struct stream streams[2];
  struct input input;
  // Reads how the exec went.
  struct source exec_report;
  int failure;
  const char *failed_step;
  uint8_t end_kind;
  uint32_t end_value;
  // What the current control connection has been told or is owed.
  bool announced;
  bool exit_sent;
  bool answer_due;
  uint32_t answer_request;
  // Links of the queue of processes with something to send.
  struct process *next_ready;
  bool is_ready;
};

void process_save(struct state_writer *writer);
bool process_load(struct state_reader *reader);
// NULL when PROCESSES_MAX are held or memory is short.
struct process *process_add(const char *token);
void process_forget(struct process *process);
struct process *process_by_token(const char *token);
struct process *process_by_channel(uint32_t channel);
// Only one not reaped yet: a pid may name another process afterwards.
struct process *process_by_pid(pid_t pid);
uint32_t process_count(void);
struct process *process_at(uint32_t index);
// The number the newest channel has.
uint32_t *process_last_channel(void);

#endif
