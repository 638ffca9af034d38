// Collecting the processes that ended; only those a host started have an end to report.
#include "reap.h"

#include <sys/wait.h>

#include "input.h"
#include "output.h"
#include "process.h"
#include "spawn.h"
#include "turns.h"
#include "upgrade.h"
#include "worker.h"

static void process_ended(struct process *process, int status) {
  spawn_settle(process);
  if (process->state == PROCESS_FAILED) return;
  process->state = PROCESS_ENDED;
  process->end_kind = WIFSIGNALED(status) ? END_SIGNAL : END_CODE;
  process->end_value = (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  // Before its output is read to the end: nobody holds a terminal then but who still writes to it.
  input_close(process);
  stream_ended(&process->streams[0]);
  stream_ended(&process->streams[1]);
  turns_add(process);
}

void reap_children(void) {
  for (;;) {
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    struct process *process = process_by_pid(pid);
    if (process != NULL) process_ended(process, status);
    else if (!upgrade_child_ended(pid, status)) worker_ended(pid);
  }
}
