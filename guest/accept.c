// Accepts connections and reads the hello that says what each is for.
#include "accept.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "loop.h"
#include "messages.h"
#include "protocol.h"
#include "worker.h"

enum { GREETINGS_MAX = 128, ACCEPTS_PER_TURN = 16 };

// A connection before its hello is complete, or one that was refused and is read to its end so that the refusal arrives.
struct greeting {
  struct source source;
  uint8_t hello[HELLO_BYTES];
  size_t received;
  bool refused;
};

static struct greeting greetings[GREETINGS_MAX];
static struct source listening;
static bool starved;

static void refuse(struct greeting *greeting, int error, const char *operation) {
  uint8_t bytes[128];
  struct packer packer = {.start = bytes, .max = sizeof bytes};
  encode_failed(&packer, error, operation);
  ssize_t sent = send(greeting->source.fd, bytes, packer.length, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    loop_close(&greeting->source);
    return;
  }
  shutdown(greeting->source.fd, SHUT_WR);
  greeting->refused = true;
}

static void discard(struct greeting *greeting) {
  char bytes[4096];
  ssize_t got = recv(greeting->source.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) loop_close(&greeting->source);
}

// Of another version: our own hello tells the host which one.
static void answer_version(struct greeting *greeting) {
  uint8_t bytes[HELLO_BYTES];
  encode_hello(bytes, greeting->hello[6]);
  ssize_t ignored = send(greeting->source.fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)ignored;
  loop_close(&greeting->source);
}

static void greeting_complete(struct greeting *greeting) {
  int kind = decode_hello(greeting->hello);
  if (kind == KIND_CONTROL) {
    int fd = greeting->source.fd;
    loop_watch(&greeting->source, 0);
    greeting->source.fd = -1;
    control_adopt(fd);
  } else if (kind == KIND_FILES || kind == KIND_TUNNEL) {
    int error = worker_start(greeting->source.fd, kind);
    if (error == 0) loop_close(&greeting->source);
    else refuse(greeting, error, "fork");
  } else if (kind < 0) {
    answer_version(greeting);
  } else {
    loop_close(&greeting->source);
  }
}

static void greet(struct greeting *greeting) {
  struct source *source = &greeting->source;
  if (greeting->refused) {
    discard(greeting);
    return;
  }
  ssize_t got = recv(source->fd, greeting->hello + greeting->received, HELLO_BYTES - greeting->received, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    loop_close(source);
    return;
  }
  greeting->received += (size_t)got;
  if (greeting->received == HELLO_BYTES) greeting_complete(greeting);
}

static void greeting_ready(struct source *source, uint32_t events) {
  (void)events;
  greet((struct greeting *)source);
  if (source->events == 0) loop_watch(&listening, EPOLLIN);
}

static struct greeting *free_slot(void) {
  for (unsigned i = 0; i < GREETINGS_MAX; i++) {
    if (greetings[i].source.events == 0) return &greetings[i];
  }
  return NULL;
}

static void listening_ready(struct source *source, uint32_t events) {
  (void)events;
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    struct greeting *greeting = free_slot();
    if (greeting == NULL) {
      // The others wait in the socket's queue until one of these has said what it is.
      loop_watch(source, 0);
      return;
    }
    int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      // Out of descriptors or memory, it would be reported ready again at once, for ever.
      starved = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
      if (starved) loop_watch(source, 0);
      return;
    }
    *greeting = (struct greeting){.source = {.fd = fd, .ready = greeting_ready}};
    if (loop_watch(&greeting->source, EPOLLIN)) greeting_ready(&greeting->source, EPOLLIN);
    else close(fd);
  }
}

bool accept_open(int listening_fd) {
  listening = (struct source){.fd = listening_fd, .ready = listening_ready};
  return loop_watch(&listening, EPOLLIN);
}

bool accept_starved(void) { return starved; }

void accept_retry(void) {
  starved = false;
  loop_watch(&listening, EPOLLIN);
}

void accept_save(struct state_writer *writer) {
  state_put_fd(writer, listening.fd);
  uint32_t count = 0;
  for (unsigned i = 0; i < GREETINGS_MAX; i++) count += greetings[i].source.events != 0;
  put_u32(state_room(writer, 4), count);
  for (unsigned i = 0; i < GREETINGS_MAX; i++) {
    const struct greeting *greeting = &greetings[i];
    if (greeting->source.events == 0) continue;
    state_put_fd(writer, greeting->source.fd);
    struct packer *packer = state_room(writer, 16);
    put_u8(packer, greeting->refused ? 1 : 0);
    put_u8(packer, (uint8_t)greeting->received);
    put_bytes(packer, greeting->hello, HELLO_BYTES);
  }
}

bool accept_load(struct state_reader *reader) {
  int fd = state_take_fd(reader);
  if (!reader->checks && (fd < 0 || !accept_open(fd))) return false;
  uint32_t count = state_take_count(reader, GREETINGS_MAX);
  for (uint32_t i = 0; i < count; i++) {
    struct greeting *greeting = &greetings[i];
    greeting->source = (struct source){.fd = state_take_fd(reader), .ready = greeting_ready};
    greeting->refused = state_take_bool(reader);
    greeting->received = take_u8(&reader->cursor);
    const uint8_t *hello = take_bytes(&reader->cursor, HELLO_BYTES);
    if (hello == NULL || greeting->received >= HELLO_BYTES + (greeting->refused ? 1u : 0u)) return false;
    memcpy(greeting->hello, hello, HELLO_BYTES);
    if (!reader->checks && !loop_watch(&greeting->source, EPOLLIN)) close(greeting->source.fd);
  }
  return !reader->cursor.bad;
}
