// What every forked process does first, before it becomes a program or serves a connection.
#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "terminal.h"

enum { SCORE_ABOVE_INIT = 300, SCORE_MAX = 1000, CLOSE_ON_EXEC = 4 };

static int proc_fd = -1;
static char score[12];
static struct rlimit descriptors;
static struct rlimit processes;

static void read_score(void) {
  char text[16] = "";
  int own = openat(proc_fd, "self/oom_score_adj", O_RDONLY | O_CLOEXEC);
  if (own >= 0) {
    if (read(own, text, sizeof text - 1) < 0) text[0] = 0;
    close(own);
  }
  int value = atoi(text) + SCORE_ABOVE_INIT;
  snprintf(score, sizeof score, "%d", value < SCORE_MAX ? value : SCORE_MAX);
}

void child_prepare(void) {
  // Opened now: what is mounted over /proc later is the sandbox's business and not followed.
  proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  terminal_prepare();
  read_score();
  // Programs get less than the init has: what they fork may not take the last process, or nobody could end it any more.
  if (getrlimit(RLIMIT_NPROC, &processes) == 0 && processes.rlim_cur < processes.rlim_max) {
    setrlimit(RLIMIT_NPROC, &(struct rlimit){.rlim_cur = processes.rlim_max, .rlim_max = processes.rlim_max});
    processes.rlim_max = processes.rlim_cur;
  }
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  struct rlimit raised = {.rlim_cur = descriptors.rlim_max, .rlim_max = descriptors.rlim_max};
  if (raised.rlim_cur > DESCRIPTORS_MAX) raised.rlim_cur = DESCRIPTORS_MAX;
  if (raised.rlim_cur > descriptors.rlim_cur) setrlimit(RLIMIT_NOFILE, &raised);
}

void child_save(struct state_writer *writer) {
  state_put_fd(writer, proc_fd);
  struct packer *packer = state_room(writer, 32);
  put_u64(packer, descriptors.rlim_cur);
  put_u64(packer, descriptors.rlim_max);
  put_u64(packer, processes.rlim_cur);
  put_u64(packer, processes.rlim_max);
}

bool child_load(struct state_reader *reader) {
  proc_fd = state_take_fd(reader);
  descriptors.rlim_cur = take_u64(&reader->cursor);
  descriptors.rlim_max = take_u64(&reader->cursor);
  processes.rlim_cur = take_u64(&reader->cursor);
  processes.rlim_max = take_u64(&reader->cursor);
  if (!reader->checks) read_score();
  return !reader->cursor.bad;
}

void child_begin(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int own = openat(proc_fd, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (own < 0) return;
  // May be refused; then the kernel chooses by size alone.
  ssize_t ignored = write(own, score, strlen(score));
  (void)ignored;
  close(own);
}

void child_restore_limits(void) {
  if (descriptors.rlim_max != 0) setrlimit(RLIMIT_NOFILE, &descriptors);
  if (processes.rlim_max != 0) setrlimit(RLIMIT_NPROC, &processes);
}

void child_close_from(unsigned first, bool on_exec) {
  if (syscall(SYS_close_range, first, ~0U, on_exec ? CLOSE_ON_EXEC : 0) == 0) return;
  // A kernel without the call: every descriptor of ours is marked already, so only a worker has to close them.
  for (unsigned fd = first; !on_exec && fd < DESCRIPTORS_MAX; fd++) close((int)fd);
}

void child_mark_from(unsigned first) {
  if (syscall(SYS_close_range, first, ~0U, CLOSE_ON_EXEC) == 0) return;
  for (unsigned fd = first; fd < DESCRIPTORS_MAX; fd++) fcntl((int)fd, F_SETFD, FD_CLOEXEC);
}
