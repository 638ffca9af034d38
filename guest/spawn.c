// Starting programs: fork, prepare, exec, and learn through a pipe how the exec went without waiting for it.
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "child.h"
#include "input.h"
#include "output.h"
#include "terminal.h"
#include "turns.h"

enum step { STEP_MEMORY, STEP_DESCRIPTORS, STEP_CHDIR, STEP_EXEC };

static const char *const step_names[] = {"memory", "descriptors", "chdir", "exec"};

// Written by the child when it cannot become the program; small enough to be written whole.
struct exec_failure {
  int error;
  int step;
};

// What connects the init and a program: descriptors of both sides, -1 where there is none.
struct ends {
  int input[2];
  int output[2];
  int errors[2];
  int report[2];
  // Of a terminal: its other side for writing; the program's side is `output[1]`.
  bool is_terminal;
};

static void close_pair(int pair[2]) {
  for (int i = 0; i < 2; i++) {
    if (pair[i] >= 0) close(pair[i]);
    pair[i] = -1;
  }
}

static void close_ends(struct ends *ends) {
  close_pair(ends->input);
  close_pair(ends->output);
  close_pair(ends->errors);
  close_pair(ends->report);
}

// Only the init's end does not block: the flag belongs to an end of a pipe, and programs expect theirs to block.
static bool open_pipe(int pair[2], int own) {
  return pipe2(pair, O_CLOEXEC) == 0 && fcntl(pair[own], F_SETFL, O_NONBLOCK) == 0;
}

static bool open_terminal(struct ends *ends, const struct spawn_request *request) {
  ends->is_terminal = true;
  if (!terminal_open(request->columns, request->rows, &ends->output[0], &ends->output[1])) return false;
  // A descriptor of its own for each direction, because each is waited for by itself.
  ends->input[1] = fcntl(ends->output[0], F_DUPFD_CLOEXEC, 0);
  return ends->input[1] >= 0;
}

// The step that failed, or NULL.
static const char *open_ends(struct ends *ends, const struct spawn_request *request) {
  *ends = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, false};
  const char *failed = NULL;
  if (request->input == INPUT_TERMINAL) {
    if (!open_terminal(ends, request)) failed = "terminal";
  } else {
    if (!open_pipe(ends->output, 0) || !open_pipe(ends->errors, 0)) failed = "pipe";
    if (failed == NULL && request->input == INPUT_PIPE && !open_pipe(ends->input, 1)) failed = "pipe";
  }
  if (failed == NULL && !open_pipe(ends->report, 0)) failed = "pipe";
  if (failed == NULL) return NULL;
  int error = errno;
  close_ends(ends);
  errno = error;
  return failed;
}

static bool connect_standard(const struct ends *ends) {
  int input = ends->is_terminal ? ends->output[1] : ends->input[0];
  int errors = ends->is_terminal ? ends->output[1] : ends->errors[1];
  if (ends->is_terminal && !terminal_control(input)) return false;
  if (input >= 0 && dup2(input, STDIN_FILENO) < 0) return false;
  return dup2(ends->output[1], STDOUT_FILENO) >= 0 && dup2(errors, STDERR_FILENO) >= 0;
}

// In the child; returns only when it failed, with the step that did.
static enum step become_program(const struct spawn_request *request, const struct ends *ends) {
  setsid();
  child_begin();
  child_restore_limits();
  char **arguments = calloc((size_t)request->arguments.count + 1, sizeof *arguments);
  char **environment = calloc((size_t)request->environment.count + 1, sizeof *environment);
  if (arguments == NULL || environment == NULL) return STEP_MEMORY;
  text_vector(&request->arguments, arguments);
  text_vector(&request->environment, environment);
  if (!connect_standard(ends)) return STEP_DESCRIPTORS;
  child_close_from(STDERR_FILENO + 1, true);
  if (chdir(request->working_dir) != 0) return STEP_CHDIR;
  // execvp looks PATH up in the environment the program will have.
  environ = environment;
  execvp(arguments[0], arguments);
  return STEP_EXEC;
}

static void report_ready(struct source *source, uint32_t events) {
  (void)events;
  struct process *process = (struct process *)((char *)source - offsetof(struct process, exec_report));
  struct exec_failure failure;
  ssize_t got = read(source->fd, &failure, sizeof failure);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  loop_close(source);
  process->state = PROCESS_RUNNING;
  if (got == (ssize_t)sizeof failure) {
    process->state = PROCESS_FAILED;
    process->failure = failure.error;
    process->failed_step = step_names[failure.step];
  }
  turns_add(process);
}

const char *spawn_step(const char *name) {
  if (name[0] == 0) return "";
  for (size_t i = 0; i < sizeof step_names / sizeof *step_names; i++) {
    if (strcmp(step_names[i], name) == 0) return step_names[i];
  }
  return NULL;
}

void spawn_await(struct process *process, int report_fd) {
  process->exec_report = (struct source){.fd = report_fd, .ready = report_ready};
  if (report_fd >= 0) loop_watch(&process->exec_report, EPOLLIN);
}

void spawn_settle(struct process *process) {
  if (process->state != PROCESS_STARTING) return;
  report_ready(&process->exec_report, EPOLLIN);
  // The report's writer is gone with the process, so there always is an answer; an interrupted read is not one.
  if (process->state == PROCESS_STARTING) spawn_settle(process);
}

// In the init after the fork: its sides go to the process, the program's are closed.
static void keep_own_ends(struct process *process, struct ends *ends, uint8_t input) {
  stream_open(&process->streams[0], ends->output[0], ends->is_terminal);
  if (ends->is_terminal) stream_none(&process->streams[1]);
  else stream_open(&process->streams[1], ends->errors[0], false);
  if (input != INPUT_NONE) input_open(process, input, ends->input[1], ends->is_terminal ? ends->output[1] : -1);
  if (ends->input[0] >= 0) close(ends->input[0]);
  if (!ends->is_terminal) close(ends->output[1]);
  if (ends->errors[1] >= 0) close(ends->errors[1]);
  close(ends->report[1]);
  spawn_await(process, ends->report[0]);
}

int spawn_process(const struct spawn_request *request, struct process **started, const char **step) {
  struct process *process = process_add(request->token);
  *step = "limit";
  if (process == NULL) return EAGAIN;
  struct ends ends;
  *step = open_ends(&ends, request);
  if (*step != NULL) {
    int error = errno;
    process_forget(process);
    return error;
  }
  *step = "fork";
  pid_t pid = fork();
  if (pid == 0) {
    struct exec_failure failure = {.step = (int)become_program(request, &ends)};
    failure.error = errno;
    ssize_t ignored = write(ends.report[1], &failure, sizeof failure);
    (void)ignored;
    _exit(127);
  }
  if (pid < 0) {
    int error = errno;
    close_ends(&ends);
    process_forget(process);
    return error;
  }
  process->pid = pid;
  keep_own_ends(process, &ends, request->input);
  *started = process;
  return 0;
}

int spawn_signal(const char *token, int number) {
  struct process *process = process_by_token(token);
  if (process == NULL || (process->state != PROCESS_RUNNING && process->state != PROCESS_STARTING)) return ESRCH;
  if (kill(-process->pid, number) == 0) return 0;
  // Just forked, it may not lead its group yet.
  return kill(process->pid, number) == 0 ? 0 : errno;
}
