// catnap-init: PID 1 of a sandbox. Starts programs, collects their ends and output, and serves a host through the socket on descriptor 3.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accept.h"
#include "child.h"
#include "control.h"
#include "loop.h"
#include "output.h"
#include "reap.h"
#include "terminate.h"
#include "upgrade.h"

enum { LISTENING_FD = 3, RETRY_MS = 100 };

static void signal_ready(struct source *source, uint32_t events) {
  (void)events;
  struct signalfd_siginfo info;
  bool is_first_process = getpid() == 1;
  while (read(source->fd, &info, sizeof info) == (ssize_t)sizeof info) {
    // A sender outside the PID namespace has no pid in it; nobody inside may end the sandbox this way.
    bool from_inside = is_first_process && info.ssi_pid != 0;
    if (info.ssi_signo == SIGTERM && !from_inside) terminate_all();
  }
  reap_children();
}

static bool open_signals(struct source *signals) {
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGCHLD);
  sigaddset(&handled, SIGTERM);
  // Of a process that closed its input; the write says so itself. Blocked and not ignored: children get it back with their mask.
  sigset_t blocked = handled;
  sigaddset(&blocked, SIGPIPE);
  if (sigprocmask(SIG_SETMASK, &blocked, NULL) != 0) return false;
  *signals = (struct source){.fd = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC), .ready = signal_ready};
  return signals->fd >= 0 && loop_watch(signals, EPOLLIN);
}

// Descriptors 0 to 2 have to exist, or pipes would get their numbers; 0 becomes what every program reads from.
static bool open_standard(void) {
  int null = open("/dev/null", O_RDWR);
  if (null < 0) return false;
  for (int fd = 1; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) < 0) dup2(null, fd);
  }
  if (null != STDIN_FILENO) dup2(null, STDIN_FILENO);
  if (null > 2) close(null);
  return true;
}

static bool is_listening(int fd) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 && value == 1;
}

static int fail(const char *what) {
  fprintf(stderr, "catnap-init: %s: %s\n", what, strerror(errno));
  return 1;
}

static int start(struct source *signals) {
  if (!is_listening(LISTENING_FD)) return fail("descriptor 3 is not a listening socket");
  if (!open_standard()) return fail("/dev/null");
  child_close_from(LISTENING_FD + 1, false);
  fcntl(LISTENING_FD, F_SETFD, FD_CLOEXEC);
  fcntl(LISTENING_FD, F_SETFL, O_NONBLOCK);
  umask(022);
  if (chdir("/") != 0) return fail("chdir");
  // Outside a PID namespace orphans have to be asked for.
  if (getpid() != 1) prctl(PR_SET_CHILD_SUBREAPER, 1);
  child_prepare();
  return loop_open() && open_signals(signals) && accept_open(LISTENING_FD) ? 0 : fail("events");
}

// In place of another init, whose processes and descriptors these are.
static int adopt(struct source *signals, int state_fd) {
  struct upgrade_origin origin;
  prctl(PR_SET_NAME, "catnap-init");
  if (!loop_open() || !open_signals(signals)) return fail("events");
  if (!state_load(state_fd, false, &origin)) return fail("state");
  close(state_fd);
  upgrade_succeeded(&origin);
  // What ended since the other one looked.
  reap_children();
  control_pump();
  return 0;
}

static int earliest(int one, int other) {
  if (one < 0 || other < 0) return one < 0 ? other : one;
  return one < other ? one : other;
}

int main(int count, char **arguments) {
  static struct source signals;
  // First of all: nobody inside may trace this process or open its descriptors through /proc.
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return fail("prctl");
  if (count == 2 && strcmp(arguments[1], "--check") == 0) return upgrade_check();
  bool adopts = count == 3 && strcmp(arguments[1], "--adopt") == 0;
  int failure = adopts ? adopt(&signals, atoi(arguments[2])) : start(&signals);
  if (failure != 0) return failure;
  for (;;) {
    loop_turn(earliest(output_starved() || accept_starved() ? RETRY_MS : -1, upgrade_timeout()));
    if (output_starved()) output_retry();
    if (accept_starved()) accept_retry();
    upgrade_turn();
    control_pump();
  }
}
