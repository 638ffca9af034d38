// Output pipes of ended processes, emptied for the descendants that still write to them.
#include "leftover.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop.h"

enum { LEFTOVERS_MAX = 256 };

static struct source leftovers[LEFTOVERS_MAX];
static unsigned next_slot;

static void leftover_ready(struct source *source, uint32_t events) {
  (void)events;
  char bytes[16 * 1024];
  ssize_t got = read(source->fd, bytes, sizeof bytes);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) loop_close(source);
}

void leftover_keep(int fd) {
  char byte;
  // Most often nobody holds it any more.
  if (read(fd, &byte, 1) == 0) {
    close(fd);
    return;
  }
  // The oldest pipe is closed when there are too many: its writers get SIGPIPE.
  struct source *source = &leftovers[next_slot++ % LEFTOVERS_MAX];
  for (unsigned i = 0; i < LEFTOVERS_MAX; i++) {
    if (leftovers[i].events != 0) continue;
    source = &leftovers[i];
    break;
  }
  if (source->events != 0) loop_close(source);
  *source = (struct source){.fd = fd, .ready = leftover_ready};
  if (!loop_watch(source, EPOLLIN)) close(fd);
}

void leftover_save(struct state_writer *writer) {
  uint32_t count = 0;
  for (unsigned i = 0; i < LEFTOVERS_MAX; i++) count += leftovers[i].events != 0;
  put_u32(state_room(writer, 4), count);
  for (unsigned i = 0; i < LEFTOVERS_MAX; i++) {
    if (leftovers[i].events != 0) state_put_fd(writer, leftovers[i].fd);
  }
}

bool leftover_load(struct state_reader *reader) {
  uint32_t count = state_take_count(reader, LEFTOVERS_MAX);
  for (uint32_t i = 0; i < count; i++) {
    int fd = state_take_fd(reader);
    if (fd >= 0) leftover_keep(fd);
  }
  return !reader->cursor.bad;
}
