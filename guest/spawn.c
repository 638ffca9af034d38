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
#include "output.h"
#include "turns.h"

enum step { STEP_MEMORY, STEP_DESCRIPTORS, STEP_CHDIR, STEP_EXEC };

static const char *const step_names[] = {"memory", "descriptors", "chdir", "exec"};

// Written by the child when it cannot become the program; small enough to be written whole.
struct exec_failure {
  int error;
  int step;
};

struct pipes {
  int output[2];
  int errors[2];
  int report[2];
};

static void close_pair(int pair[2]) {
  for (int i = 0; i < 2; i++) {
    if (pair[i] >= 0) close(pair[i]);
  }
}

static void close_pipes(struct pipes *pipes) {
  close_pair(pipes->output);
  close_pair(pipes->errors);
  close_pair(pipes->report);
}

static bool open_pipes(struct pipes *pipes) {
  *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
  if (pipe2(pipes->output, O_CLOEXEC) == 0 && pipe2(pipes->errors, O_CLOEXEC) == 0 && pipe2(pipes->report, O_CLOEXEC) == 0) {
    // Only the init's ends: the flag belongs to an end of a pipe, and programs expect theirs to block.
    fcntl(pipes->output[0], F_SETFL, O_NONBLOCK);
    fcntl(pipes->errors[0], F_SETFL, O_NONBLOCK);
    fcntl(pipes->report[0], F_SETFL, O_NONBLOCK);
    return true;
  }
  int error = errno;
  close_pipes(pipes);
  errno = error;
  return false;
}

// In the child; returns only when it failed, with the step that did.
static enum step become_program(const struct spawn_request *request, const struct pipes *pipes) {
  setsid();
  child_begin();
  child_restore_limits();
  char **arguments = calloc((size_t)request->arguments.count + 1, sizeof *arguments);
  char **environment = calloc((size_t)request->environment.count + 1, sizeof *environment);
  if (arguments == NULL || environment == NULL) return STEP_MEMORY;
  text_vector(&request->arguments, arguments);
  text_vector(&request->environment, environment);
  if (dup2(pipes->output[1], STDOUT_FILENO) < 0 || dup2(pipes->errors[1], STDERR_FILENO) < 0) return STEP_DESCRIPTORS;
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

void spawn_settle(struct process *process) {
  if (process->state != PROCESS_STARTING) return;
  report_ready(&process->exec_report, EPOLLIN);
  // The report's writer is gone with the process, so there always is an answer; an interrupted read is not one.
  if (process->state == PROCESS_STARTING) spawn_settle(process);
}

int spawn_process(const struct spawn_request *request, struct process **started, const char **step) {
  struct process *process = process_add(request->token);
  *step = "limit";
  if (process == NULL) return EAGAIN;
  struct pipes pipes;
  *step = "pipe";
  if (!open_pipes(&pipes)) {
    int error = errno;
    process_forget(process);
    return error;
  }
  *step = "fork";
  pid_t pid = fork();
  if (pid == 0) {
    struct exec_failure failure = {.step = (int)become_program(request, &pipes)};
    failure.error = errno;
    ssize_t ignored = write(pipes.report[1], &failure, sizeof failure);
    (void)ignored;
    _exit(127);
  }
  if (pid < 0) {
    int error = errno;
    close_pipes(&pipes);
    process_forget(process);
    return error;
  }
  close(pipes.output[1]);
  close(pipes.errors[1]);
  close(pipes.report[1]);
  process->pid = pid;
  process->exec_report = (struct source){.fd = pipes.report[0], .ready = report_ready};
  stream_open(&process->streams[0], pipes.output[0]);
  stream_open(&process->streams[1], pipes.errors[0]);
  loop_watch(&process->exec_report, EPOLLIN);
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
