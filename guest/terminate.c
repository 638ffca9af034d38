// The end of the sandbox: every process is killed, then the init exits.
#include "terminate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 500, ROUND_NS = 10 * 1000 * 1000 };

static pid_t parent_of(const char *pid) {
  char path[64];
  char text[512];
  snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return -1;
  text[got] = 0;
  // The program's name, in parentheses, may contain anything.
  const char *after_name = strrchr(text, ')');
  int parent = -1;
  if (after_name == NULL || sscanf(after_name, ") %*c %d", &parent) != 1) return -1;
  return parent;
}

// Outside a PID namespace there is no one call for all descendants: those whose parent is gone become our children.
static void kill_children(void) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) return;
  for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (parent_of(entry->d_name) == getpid()) kill(atoi(entry->d_name), SIGKILL);
  }
  closedir(proc);
}

_Noreturn void terminate_all(void) {
  for (int round = 0; round < ROUNDS_MAX; round++) {
    if (getpid() == 1) kill(-1, SIGKILL);
    else kill_children();
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    if (pid < 0 && errno == ECHILD) break;
    nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
  }
  _exit(0);
}
