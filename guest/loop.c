// The event loop of PID 1, on epoll.
#include "loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_PER_TURN = 64 };

static int epoll_fd = -1;
static struct grave *graves;

bool loop_open(void) {
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  return epoll_fd >= 0;
}

bool loop_watch(struct source *source, uint32_t events) {
  if (source->events == events) return true;
  int operation = EPOLL_CTL_MOD;
  if (source->events == 0) operation = EPOLL_CTL_ADD;
  if (events == 0) operation = EPOLL_CTL_DEL;
  struct epoll_event event = {.events = events, .data.ptr = source};
  if (epoll_ctl(epoll_fd, operation, source->fd, &event) != 0) return false;
  source->events = events;
  return true;
}

void loop_close(struct source *source) {
  if (source->fd < 0) return;
  loop_watch(source, 0);
  close(source->fd);
  source->fd = -1;
  source->events = 0;
}

void loop_bury(struct grave *grave) {
  grave->next = graves;
  graves = grave;
}

void loop_turn(int timeout_ms) {
  struct epoll_event events[EVENTS_PER_TURN];
  int count = epoll_wait(epoll_fd, events, EVENTS_PER_TURN, timeout_ms);
  for (int i = 0; i < count; i++) {
    struct source *source = events[i].data.ptr;
    if (source->events != 0) source->ready(source, events[i].events);
  }
  while (graves != NULL) {
    struct grave *next = graves->next;
    free(graves);
    graves = next;
  }
}
