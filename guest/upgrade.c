// Replaces the init by another binary, in place.
#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "loop.h"
#include "output.h"
#include "privilege.h"
#include "protocol.h"
#include "version.h"

enum { STATE_FD = 3, BINARY_FD = 4, TRIAL_MS = 5000, SETTLE_MS = 1000, EXECUTABLE_ONLY = 0111 };

static int binary_fd = -1;
static uint32_t binary_size;
static int binary_error;

// What the child reports: the kernel's reason not to run the binary, or who the binary says it is.
struct report {
  char kind[4];
  uint32_t number;
  char version[VERSION_TEXT_MAX + 1];
};

static const char kind_exec[4] = {'E', 'X', 'E', 'C'};
static const char kind_init[4] = {'C', 'A', 'T', 'N'};

static struct {
  pid_t pid;
  bool ended;
  bool timed_out;
  int status;
  int64_t deadline_ms;
  int report_fd;
  uint32_t request;
} trial = {.report_fd = -1};

// Waiting, until the deadline at most, for the host to acknowledge what not every init could take over.
static bool is_settling;
static bool answer_due;
static struct upgrade_message answer;
static char from_version[VERSION_TEXT_MAX + 1];

static void drop_binary(void) {
  if (binary_fd >= 0) close(binary_fd);
  binary_fd = -1;
  binary_size = 0;
  binary_error = 0;
}

struct upgrade_message upgrade_outcome(uint32_t request, const char *step, uint32_t value) {
  return (struct upgrade_message){.request = request,
                                  .step = step,
                                  .value = value,
                                  .from = version_text,
                                  .to = version_text,
                                  .revision = PROTOCOL_REVISION};
}

static void refuse(uint32_t request, const char *step, uint32_t value) {
  answer = upgrade_outcome(request, step, value);
  answer_due = true;
  drop_binary();
  output_narrow(false);
}

void upgrade_receive(const struct binary_piece *piece) {
  // The one being tried out stays what it is.
  if (trial.pid != 0 || is_settling) return;
  if (piece->offset == 0) {
    drop_binary();
    binary_fd = memfd_create("catnap-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (binary_fd < 0) binary_error = errno;
  }
  if (binary_error != 0) return;
  if (binary_fd < 0 || piece->offset != binary_size || piece->length > BINARY_BYTES_MAX - binary_size) {
    binary_error = EINVAL;
    return;
  }
  ssize_t written = write(binary_fd, piece->bytes, piece->length);
  if (written != (ssize_t)piece->length) binary_error = written < 0 ? errno : ENOSPC;
  else binary_size += (uint32_t)written;
}

// Whoever may not read a program cannot look into it once it runs: from its first moment the kernel holds it for one that must
// not be traced. That the init makes itself so is too late, others run beside it already.
static void execute(int fd, char *const arguments[]) {
  privilege_read_all(false);
  syscall(SYS_execveat, fd, "", arguments, environ, AT_EMPTY_PATH);
  int error = errno;
  privilege_read_all(true);
  errno = error;
}

static _Noreturn void become_trial(int state_fd, int report_fd) {
  child_begin();
  // Out of the way of the numbers they get.
  int state = fcntl(state_fd, F_DUPFD, BINARY_FD + 1);
  int binary = fcntl(binary_fd, F_DUPFD_CLOEXEC, BINARY_FD + 1);
  int report = fcntl(report_fd, F_DUPFD, BINARY_FD + 1);
  dup2(report, STDOUT_FILENO);
  dup2(state, STATE_FD);
  dup3(binary, BINARY_FD, O_CLOEXEC);
  child_close_from(BINARY_FD + 1, false);
  execute(BINARY_FD, (char *[]){"catnap-init", "--check", NULL});
  struct report failure = {.number = (uint32_t)errno};
  memcpy(failure.kind, kind_exec, sizeof failure.kind);
  ssize_t ignored = write(STDOUT_FILENO, &failure, sizeof failure);
  (void)ignored;
  _exit(127);
}

// The step that failed, with errno; NULL once the child runs.
static const char *start_trial(void) {
  if (fchmod(binary_fd, EXECUTABLE_ONLY) != 0) return "binary";
  if (fcntl(binary_fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) return "binary";
  int state = memfd_create("catnap-state", MFD_CLOEXEC);
  if (state < 0) return "state";
  int report[2] = {-1, -1};
  const char *failed = "state";
  errno = state_save(state, false, trial.request);
  if (errno == 0) failed = pipe2(report, O_CLOEXEC | O_NONBLOCK) == 0 ? NULL : "fork";
  if (failed == NULL) {
    trial.pid = fork();
    if (trial.pid == 0) become_trial(state, report[1]);
    if (trial.pid < 0) failed = "fork";
  }
  int error = errno;
  close(state);
  if (report[1] >= 0) close(report[1]);
  if (failed != NULL) {
    if (report[0] >= 0) close(report[0]);
    trial.pid = 0;
    errno = error;
    return failed;
  }
  trial.report_fd = report[0];
  trial.ended = trial.timed_out = false;
  trial.deadline_ms = now_ms() + TRIAL_MS;
  return NULL;
}

static void settle(void) {
  if (!output_narrow(true) && now_ms() < trial.deadline_ms) return;
  is_settling = false;
  const char *failed = start_trial();
  if (failed != NULL) refuse(trial.request, failed, (uint32_t)errno);
}

bool upgrade_begin(uint32_t request, uint32_t size) {
  if (trial.pid != 0 || is_settling || answer_due) return false;
  int error = binary_error != 0 ? binary_error : size == 0 || size != binary_size ? EINVAL : 0;
  if (error != 0) {
    refuse(request, "binary", (uint32_t)error);
    return true;
  }
  trial.request = request;
  trial.deadline_ms = now_ms() + SETTLE_MS;
  is_settling = true;
  settle();
  return true;
}

static void end_trial(void) {
  close(trial.report_fd);
  trial.report_fd = -1;
  trial.pid = 0;
}

void upgrade_cancel(void) {
  answer_due = is_settling = false;
  output_narrow(false);
  if (trial.pid != 0) {
    // Reaped later as a child of nobody's. Once it was, its number may be another's.
    if (!trial.ended) kill(trial.pid, SIGKILL);
    end_trial();
  }
  drop_binary();
}

bool upgrade_child_ended(pid_t pid, int status) {
  if (trial.pid == 0 || pid != trial.pid) return false;
  trial.ended = true;
  trial.status = status;
  return true;
}

int upgrade_timeout(void) {
  if (!is_settling && (trial.pid == 0 || trial.timed_out || trial.ended)) return -1;
  int64_t left = trial.deadline_ms - now_ms();
  return left > 0 ? (int)left : 0;
}

// What the trial showed; NULL when the binary is good.
static const char *judge(uint32_t *value) {
  struct report report = {{0}, 0, {0}};
  ssize_t got = read(trial.report_fd, &report, sizeof report);
  *value = 0;
  if (trial.timed_out) return "deadline";
  *value = (uint32_t)(WIFSIGNALED(trial.status) ? WTERMSIG(trial.status) : WEXITSTATUS(trial.status));
  if (WIFSIGNALED(trial.status)) return "signal";
  if (got == (ssize_t)sizeof report && memcmp(report.kind, kind_exec, sizeof report.kind) == 0) {
    *value = report.number;
    return "exec";
  }
  if (*value != 0) return "exit";
  bool is_init = got == (ssize_t)sizeof report && memcmp(report.kind, kind_init, sizeof report.kind) == 0;
  return is_init ? NULL : "answer";
}

// Returns only when it failed: with errno and the step.
static const char *take_over(void) {
  int state = memfd_create("catnap-state", 0);
  if (state < 0) return "state";
  const char *failed = "state";
  errno = state_save(state, true, trial.request);
  if (errno == 0) {
    char number[12];
    snprintf(number, sizeof number, "%d", state);
    failed = "replace";
    execute(binary_fd, (char *[]){"catnap-init", "--adopt", number, NULL});
  }
  int error = errno;
  close(state);
  child_mark_from(STDERR_FILENO + 1);
  errno = error;
  return failed;
}

void upgrade_turn(void) {
  if (is_settling) settle();
  if (trial.pid == 0) return;
  if (!trial.ended) {
    if (trial.timed_out || now_ms() < trial.deadline_ms) return;
    trial.timed_out = true;
    kill(trial.pid, SIGKILL);
    return;
  }
  uint32_t value;
  const char *failed = judge(&value);
  end_trial();
  if (failed == NULL) {
    failed = take_over();
    value = (uint32_t)errno;
  }
  refuse(trial.request, failed, value);
}

void upgrade_succeeded(const struct upgrade_origin *origin) {
  strncpy(from_version, origin->version, VERSION_TEXT_MAX);
  answer = upgrade_outcome(origin->request, "", 0);
  answer.from = from_version;
  answer_due = true;
}

bool upgrade_answer(struct upgrade_message *message) {
  if (!answer_due) return false;
  *message = answer;
  answer_due = false;
  return true;
}

int upgrade_check(void) {
  struct upgrade_origin origin;
  if (!state_load(STATE_FD, true, &origin)) return 1;
  struct report report = {.number = PROTOCOL_REVISION};
  memcpy(report.kind, kind_init, sizeof report.kind);
  strncpy(report.version, version_text, VERSION_TEXT_MAX);
  return write(STDOUT_FILENO, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 1;
}
