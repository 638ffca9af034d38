// Starts and counts workers; in a worker, reads its requests and serves them.
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "child.h"
#include "files.h"
#include "link.h"
#include "owners.h"
#include "protocol.h"
#include "transfer.h"
#include "sockets.h"
#include "tunnel.h"
#include "walk.h"
#include "watch.h"

enum { CONNECTION_FD = 3, WORKERS_MAX = FILE_WORKERS_MAX + TUNNEL_WORKERS_MAX };

struct worker {
  pid_t pid;
  int kind;
};

static struct worker workers[WORKERS_MAX];
static unsigned worker_count;

static unsigned count_kind(int kind) {
  unsigned count = 0;
  for (unsigned i = 0; i < worker_count; i++) count += workers[i].kind == kind;
  return count;
}

// What there is to do for a decoded request; 0 or an errno to report.
static int serve_request(const struct file_request *request) {
  switch (request->type) {
    case FRAME_STAT:
      return files_stat(request);
    case FRAME_SET_MODE:
      return files_set_mode(request);
    case FRAME_LIST:
      return files_list(request);
    case FRAME_READ:
      return transfer_read(request);
    case FRAME_WRITE:
      return transfer_write(request);
    case FRAME_MAKE_DIRECTORY:
      return files_make_directory(request);
    case FRAME_REMOVE:
      return files_remove(request);
    case FRAME_CONCATENATE:
      return transfer_concatenate(request);
    case FRAME_WALK:
      return walk_serve(request);
    case FRAME_WATCH:
      return watch_serve(request);
    case FRAME_SOCKETS:
      return sockets_serve(request);
    case FRAME_CONNECT:
      return tunnel_serve(request->port);
    case FRAME_CONNECT_TO:
      return tunnel_serve_host(request->host, request->port);
    default:
      return failed("request", EINVAL);
  }
}

static bool is_tunnel(uint8_t type) { return type == FRAME_CONNECT || type == FRAME_CONNECT_TO; }

// What leaves nothing behind and ends in step with the host may be followed by another request.
static bool may_continue(uint8_t type) {
  switch (type) {
    case FRAME_STAT:
    case FRAME_SET_MODE:
    case FRAME_LIST:
    case FRAME_READ:
    case FRAME_WRITE:
    case FRAME_MAKE_DIRECTORY:
      return link_is_whole();
    default:
      return false;
  }
}

// True when the next request may come.
static bool serve(int kind) {
  struct frame_header header;
  if (!link_receive_header(&header)) return false;
  uint8_t *payload = NULL;
  struct file_request request;
  int error = 0;
  if (header.length > REQUEST_PAYLOAD_MAX) error = failed("request", EMSGSIZE);
  else if ((payload = malloc((size_t)header.length + 1)) == NULL) error = failed("request", ENOMEM);
  else if (!link_receive(payload, header.length)) return false;
  else if (!decode_file_request(header.type, payload, header.length, &request)) error = failed("request", EINVAL);
  else if (is_tunnel(header.type) != (kind == KIND_TUNNEL)) error = failed("request", EINVAL);
  else error = serve_request(&request);
  if (error != 0) link_send_failure(error);
  free(payload);
  return error == 0 && may_continue(header.type);
}

static _Noreturn void become_worker(int fd, int kind) {
  prctl(PR_SET_NAME, kind == KIND_TUNNEL ? "catnap-tunnel" : "catnap-files");
  child_begin();
  signal(SIGPIPE, SIG_IGN);
  if (dup2(fd, CONNECTION_FD) < 0) _exit(1);
  // Above all the other ends of control connection and pipes: whoever waits for their end must not wait for a worker.
  child_close_from(CONNECTION_FD + 1, false);
  fcntl(CONNECTION_FD, F_SETFL, 0);
  link_open(CONNECTION_FD);
  // Names of owners may be others by the next request.
  while (serve(kind)) owners_forget();
  _exit(0);
}

int worker_start(int fd, int kind) {
  unsigned max = kind == KIND_TUNNEL ? TUNNEL_WORKERS_MAX : FILE_WORKERS_MAX;
  if (count_kind(kind) >= max) return EAGAIN;
  pid_t pid = fork();
  if (pid == 0) become_worker(fd, kind);
  if (pid < 0) return errno;
  workers[worker_count++] = (struct worker){.pid = pid, .kind = kind};
  return 0;
}

void worker_ended(pid_t pid) {
  for (unsigned i = 0; i < worker_count; i++) {
    if (workers[i].pid != pid) continue;
    workers[i] = workers[--worker_count];
    return;
  }
}

void worker_save(struct state_writer *writer) {
  put_u32(state_room(writer, 4), worker_count);
  for (unsigned i = 0; i < worker_count; i++) {
    struct packer *packer = state_room(writer, 8);
    put_u32(packer, (uint32_t)workers[i].pid);
    put_u32(packer, (uint32_t)workers[i].kind);
  }
}

bool worker_load(struct state_reader *reader) {
  worker_count = state_take_count(reader, WORKERS_MAX);
  for (unsigned i = 0; i < worker_count; i++) {
    workers[i].pid = (pid_t)take_u32(&reader->cursor);
    workers[i].kind = (int)take_u32(&reader->cursor);
    if (workers[i].pid <= 0 || (workers[i].kind != KIND_FILES && workers[i].kind != KIND_TUNNEL)) return false;
  }
  return !reader->cursor.bad;
}
