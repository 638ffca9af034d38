// A byte stream between the host and a TCP server: each direction ends on its own, as TCP's do.
#include "tunnel.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "dial.h"
#include "link.h"

enum { BUFFER_BYTES = 64 * 1024 };

// One direction: bytes read and not yet written; `over` once the end was passed on; `refused` once they are not taken any more.
struct direction {
  int from;
  int to;
  size_t at;
  size_t filled;
  bool ended;
  bool over;
  bool refused;
  uint8_t bytes[BUFFER_BYTES];
};

static bool is_temporary(int error) { return error == EAGAIN || error == EINTR; }

// Moves what it can without waiting. What is refused is thrown away: a server may answer and be gone while its request still comes,
// and the answer must arrive.
static void move(struct direction *direction) {
  if (!direction->ended && direction->at == direction->filled) {
    ssize_t got = recv(direction->from, direction->bytes, BUFFER_BYTES, MSG_DONTWAIT);
    direction->at = 0;
    direction->filled = got > 0 ? (size_t)got : 0;
    direction->ended = got == 0 || (got < 0 && !is_temporary(errno));
  }
  while (direction->at < direction->filled && !direction->refused) {
    ssize_t sent = send(direction->to, direction->bytes + direction->at, direction->filled - direction->at,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && is_temporary(errno)) return;
    if (sent < 0) direction->refused = true;
    else direction->at += (size_t)sent;
  }
  if (direction->refused) direction->at = direction->filled;
  if (direction->ended && !direction->over) {
    shutdown(direction->to, SHUT_WR);
    direction->over = true;
  }
}

static bool is_full(const struct direction *direction) { return direction->at < direction->filled; }

static short wanted_events(const struct direction *in, const struct direction *out) {
  short events = 0;
  if (!in->ended && !is_full(in)) events |= POLLIN;
  if (is_full(out)) events |= POLLOUT;
  return events;
}

static void carry(int fd) {
  static struct direction inward, outward;
  link_send_done();
  int host = link_descriptor();
  inward.from = outward.to = host;
  inward.to = outward.from = fd;
  while (!outward.refused && (!inward.over || !outward.over)) {
    short host_events = wanted_events(&inward, &outward);
    short port_events = wanted_events(&outward, &inward);
    // A hang-up is reported even when nothing is waited for: then the descriptor is left out, or the loop would spin. The host's
    // is needed for its closing to be seen, unless bytes for the port have to leave first.
    struct pollfd polled[2] = {
        {.fd = host_events == 0 && is_full(&inward) ? -1 : host, .events = host_events},
        {.fd = port_events == 0 ? -1 : fd, .events = port_events},
    };
    if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
    move(&inward);
    move(&outward);
    if ((polled[0].revents & POLLHUP) != 0 && inward.over) break;
  }
}

int tunnel_serve(uint16_t port) {
  int fd;
  int error = dial_port(port, &fd);
  if (error == 0) carry(fd);
  return error;
}

int tunnel_serve_host(const char *host, uint16_t port) {
  int fd;
  int error = dial_host(host, port, &fd);
  if (error == 0) carry(fd);
  return error;
}
